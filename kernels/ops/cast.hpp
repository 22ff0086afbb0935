#pragma once

#include <span>

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// The same numbers as another floating-point type, rounded to the nearest (ties to even); from
/// float64 to bfloat16 by way of float32.
/// Shapes: kept. Errors: std::invalid_argument for integers and truth values.
tensor cast(stream& on, const tensor& from, dtype to);

/// A float32 tensor, and the bfloat16 one that is to hold the same numbers, rounded.
struct rounding {
  const tensor& from;
  tensor& to;
};

/// On a GPU a launch for 120 of them, whatever their sizes.
/// Errors: std::invalid_argument for other types, or two shapes.
void round_all(stream& on, std::span<const rounding> all);

} // namespace sluice::kernels::ops
