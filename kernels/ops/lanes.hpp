#pragma once

#include <array>
#include <cstdint>

namespace sluice::kernels::ops {

/// How many partial results a reduction keeps: enough for two vectors of eight floats.
inline constexpr int lanes = 16;

/// The sum of term(0) ... term(count - 1), in an order that depends on `count` alone: term i goes
/// to partial sum i % lanes, and those are added pairwise. So it becomes vector code although
/// floating-point addition may not be reordered, and gives the same bits whatever the compiler
/// makes of it.
template <class T, class Term>
T lane_sum(std::int64_t count, Term term) {
  std::array<T, lanes> sums{};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int lane = 0; lane < lanes; ++lane)
      sums[lane] += term(i + lane);
  for (int lane = 0; i < count; ++i, ++lane)
    sums[lane] += term(i);
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane)
      sums[lane] += sums[lane + width];
  return sums[0];
}

/// The largest of x[0] ... x[count - 1], NaNs left out unless x[0] is one; count > 0.
template <class T>
T lane_max(const T* x, std::int64_t count) {
  std::array<T, lanes> tops;
  tops.fill(x[0]);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int lane = 0; lane < lanes; ++lane)
      tops[lane] = tops[lane] < x[i + lane] ? x[i + lane] : tops[lane];
  for (int lane = 0; i < count; ++i, ++lane)
    tops[lane] = tops[lane] < x[i] ? x[i] : tops[lane];
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane)
      tops[lane] = tops[lane] < tops[lane + width] ? tops[lane + width] : tops[lane];
  return tops[0];
}

} // namespace sluice::kernels::ops
