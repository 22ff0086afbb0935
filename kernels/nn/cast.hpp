#pragma once

#include "kernels/nn/layer.hpp"

namespace sluice::kernels::nn {

/// Turns what it takes into another floating-point type, and its gradient back into the first: at
/// the border of two stages of different precision, or to send half the bytes. No parameters.
/// Shapes: any, kept. Errors: std::invalid_argument for types that are not floating-point ones, and
/// for an input that is not `from`.
module_ptr make_cast(std::string name, dtype from, dtype to);

} // namespace sluice::kernels::nn
