#pragma once

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// The same numbers as another floating-point type, rounded to the nearest (ties to even); from
/// float64 to bfloat16 by way of float32.
/// Shapes: kept. Errors: std::invalid_argument for integers and truth values.
tensor cast(stream& on, const tensor& from, dtype to);

} // namespace sluice::kernels::ops
