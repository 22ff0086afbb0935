#pragma once

namespace sluice::emulation {

/// From now on an access to memory that may not be touched is named (kernel, block, thread, or
/// host code) before the program dies of it.
void name_faults();

} // namespace sluice::emulation
