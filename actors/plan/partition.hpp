#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sluice::plan {

/// A run of layers: [begin, end).
struct layer_range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool operator==(const layer_range&) const = default;
};

/// Cuts layers into contiguous parts, none empty, each layer in exactly one, so that the costliest
/// part costs as little as can be. Of equally good cuts it takes the one whose parts have the least
/// sum of squares: that also evens out the parts that are not the costliest.
///
/// Errors: plan_error for fewer layers than parts, no parts, or a cost that is negative or no
/// number.
/// Cost: layers^2 x parts.
std::vector<layer_range> partition(std::span<const double> layer_costs, int parts);

/// The same for parts that run at different speeds: a part's cost is divided by its speed.
std::vector<layer_range> partition(std::span<const double> layer_costs,
                                   std::span<const double> speeds);

} // namespace sluice::plan
