#pragma once

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// The elements in another type, rounded to the nearest.
/// Shapes: any. Errors: std::invalid_argument for integers, and for bfloat16 on the processor.
tensor cast(stream& on, const tensor& from, dtype to);

} // namespace sluice::kernels::ops
