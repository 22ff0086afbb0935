#include "actors/plan/partition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "actors/plan/make_plan.hpp"

namespace sluice::plan {

namespace {

void require_sound(std::span<const double> layer_costs, int parts) {
  if (parts < 1)
    throw plan_error(fmt::format("layers can be cut into 1 part or more, not {}", parts));
  if (layer_costs.size() < static_cast<std::size_t>(parts))
    throw plan_error(fmt::format("{} layer{} cannot be cut into {} parts: each needs at least one",
                                 layer_costs.size(), layer_costs.size() == 1 ? "" : "s", parts));
  for (std::size_t i = 0; i < layer_costs.size(); ++i)
    if (!(layer_costs[i] >= 0) || std::isinf(layer_costs[i]))
      throw plan_error(fmt::format("layer {} costs {}", i, layer_costs[i]));
}

} // namespace

std::vector<layer_range> partition(std::span<const double> layer_costs, int parts) {
  const std::vector<double> alike(std::max(parts, 0), 1.0);
  return partition(layer_costs, alike);
}

std::vector<layer_range> partition(std::span<const double> layer_costs,
                                   std::span<const double> speeds) {
  const auto parts = static_cast<int>(speeds.size());
  require_sound(layer_costs, parts);
  const auto layers = layer_costs.size();
  std::vector<double> before(layers + 1); // cost of all layers before one
  for (std::size_t i = 0; i < layers; ++i)
    before[i + 1] = before[i] + layer_costs[i];
  // Sums that differ by rounding alone are equally good.
  const auto alike = before[layers] * 1e-12 / *std::min_element(speeds.begin(), speeds.end());

  struct cut {
    double worst = std::numeric_limits<double>::infinity();
    double squares = 0;
    std::size_t from = 0; // where the last part begins
  };
  // best[p][n]: the first n layers in p parts.
  std::vector best(parts + 1, std::vector<cut>(layers + 1));
  best[0][0].worst = 0;
  for (int p = 1; p <= parts; ++p)
    for (std::size_t n = p; n + (parts - p) <= layers; ++n)
      for (std::size_t from = p - 1; from < n; ++from) {
        const auto& head = best[p - 1][from];
        const auto last = (before[n] - before[from]) / speeds[p - 1];
        const cut found{std::max(head.worst, last), head.squares + last * last, from};
        auto& kept = best[p][n];
        if (found.worst < kept.worst - alike
            || (found.worst <= kept.worst + alike && found.squares < kept.squares))
          kept = found;
      }

  std::vector<layer_range> ranges(parts);
  for (auto [p, end] = std::pair{parts, layers}; p > 0; --p) {
    ranges[p - 1] = {best[p][end].from, end};
    end = best[p][end].from;
  }
  return ranges;
}

} // namespace sluice::plan
