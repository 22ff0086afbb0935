#include "kernels/shape.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

#include <fmt/ranges.h>

namespace sluice::kernels {

shape::shape(std::initializer_list<std::int64_t> extents)
  : shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}

shape::shape(std::span<const std::int64_t> extents) : rank_(extents.size()) {
  if (extents.size() > max_rank)
    throw std::invalid_argument(
      fmt::format("a tensor has at most {} dimensions, not {}", max_rank, extents.size()));
  if (std::any_of(extents.begin(), extents.end(), [](auto extent) { return extent < 0; }))
    throw std::invalid_argument(fmt::format("a negative extent in [{}]", fmt::join(extents, ", ")));
  std::copy(extents.begin(), extents.end(), extents_.begin());
}

std::int64_t shape::elements() const noexcept {
  return std::accumulate(extents_.begin(), extents_.begin() + static_cast<std::ptrdiff_t>(rank_),
                         std::int64_t{1}, std::multiplies<>{});
}

std::int64_t shape::rows() const noexcept {
  return rank_ == 0 ? 1
                    : std::accumulate(extents_.begin(),
                                      extents_.begin() + static_cast<std::ptrdiff_t>(rank_ - 1),
                                      std::int64_t{1}, std::multiplies<>{});
}

std::string to_string(const shape& extents) {
  return fmt::format("[{}]", fmt::join(extents.extents(), ", "));
}

} // namespace sluice::kernels
