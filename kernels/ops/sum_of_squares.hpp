#pragma once

#include <span>
#include <vector>

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// The sum of the squares of all elements, in float64 and in an order that depends on the number
/// of elements alone: a parameter's share of the global gradient norm. For float32 it is finite
/// exactly when all elements are.
/// Errors: std::invalid_argument for integers.
double sum_of_squares(stream& on, const tensor& values);

/// That of each tensor, all of one type. On a GPU two launches for 160 tensors; the results come
/// back together, so it waits once.
std::vector<double> sums_of_squares(stream& on, std::span<const tensor> values);

} // namespace sluice::kernels::ops
