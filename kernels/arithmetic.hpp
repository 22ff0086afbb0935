#pragma once

#include <string>

namespace sluice::kernels {

/// What decides the bits of results beside the program: the instruction set that it was compiled
/// for, and the library that multiplies matrices, with what that found in the processor. Processes
/// that compute for one run, to be equal bit for bit, must say the same.
std::string arithmetic();

} // namespace sluice::kernels
