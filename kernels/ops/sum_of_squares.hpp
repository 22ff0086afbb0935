#pragma once

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// The sum of the squares of all elements, in float64 and in an order that depends on the number
/// of elements alone: a parameter's share of the global gradient norm. For float32 it is finite
/// exactly when all elements are.
/// Errors: std::invalid_argument for integers.
double sum_of_squares(stream& on, const tensor& values);

} // namespace sluice::kernels::ops
