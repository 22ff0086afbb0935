#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/ops/lanes.hpp"
#include "kernels/ops/math.hpp"

namespace sluice::kernels::ops {

/// Replaces x[0] ... x[count - 1] by their softmax; count > 0. Returns the logarithm of the sum of
/// their exponentials, from which softmax_again() restores each element. A row with a NaN or a
/// positive infinity becomes NaN as a whole.
template <class T>
T softmax_row(T* x, std::int64_t count) {
  const T top = lane_max(x, count);
  const T sum = lane_sum<T>(count, [x, top](std::int64_t j) {
    x[j] = exponential(x[j] - top);
    return x[j];
  });
  const T share = T{1} / sum;
  for (std::int64_t j = 0; j < count; ++j)
    x[j] *= share;
  return top + std::log(sum);
}

template <class T>
void softmax_again(T* x, std::int64_t count, T log_sum) {
  for (std::int64_t j = 0; j < count; ++j)
    x[j] = exponential(x[j] - log_sum);
}

} // namespace sluice::kernels::ops
