#include "actors/model_layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/nn/recomputed.hpp"
#include "kernels/nn/sequential.hpp"

namespace sluice::actors {

using kernels::nn::module_ptr;

namespace {

std::vector<plan::layer_range> ranges_of(const layout_request& wanted, std::size_t layers) {
  if (wanted.cut.empty()) {
    auto costs = wanted.layer_costs;
    if (costs.empty())
      costs.assign(layers, 1.0);
    if (costs.size() != layers)
      throw std::invalid_argument(
        fmt::format("{} layer costs for a model of {} layers", costs.size(), layers));
    return plan::partition(costs, wanted.plan.parts);
  }
  const auto total = std::accumulate(wanted.cut.begin(), wanted.cut.end(), std::size_t{0});
  if (wanted.cut.size() != static_cast<std::size_t>(wanted.plan.parts) || total != layers
      || std::ranges::count(wanted.cut, 0u) != 0)
    throw std::invalid_argument(fmt::format(
      "the cut gives {} parts and {} layers; the plan has {} parts, the model {} layers, and no "
      "part may be empty",
      wanted.cut.size(), total, wanted.plan.parts, layers));
  std::vector<plan::layer_range> ranges;
  std::size_t begin = 0;
  for (const auto size : wanted.cut) {
    ranges.push_back({begin, begin + size});
    begin += size;
  }
  return ranges;
}

/// Joins the layers of each part that can be one, where the backward of its rank is whole.
void join_layers(std::vector<module_ptr>& layers, std::vector<plan::layer_range>& ranges,
                 const plan::plan& of, const std::vector<std::int32_t>& route) {
  std::vector<module_ptr> joined;
  for (const auto id : route) {
    const auto& chunk = of.chunks[static_cast<std::size_t>(id)];
    auto& range = ranges[static_cast<std::size_t>(chunk.part)];
    const auto& lane = of.by_rank[static_cast<std::size_t>(chunk.rank)].backwards;
    const bool whole = std::ranges::none_of(lane, &plan::lane_entry::split);
    const auto begin = joined.size();
    for (auto i = range.begin; i < range.end; ++i)
      if (!whole || joined.size() == begin || !joined.back()->absorb(layers[i]))
        joined.push_back(std::move(layers[i]));
    range = {begin, joined.size()};
  }
  layers = std::move(joined);
}

module_ptr module_of(std::vector<module_ptr>& layers, const plan::layer_range& range,
                     bool recompute) {
  std::vector<module_ptr> mine;
  for (auto i = range.begin; i < range.end; ++i)
    mine.push_back(std::move(layers[i]));
  auto name = mine.front()->name();
  if (mine.size() > 1)
    name += " to " + mine.back()->name();
  module_ptr module = std::make_unique<kernels::nn::sequential>(std::move(name), std::move(mine));
  if (recompute)
    module = std::make_unique<kernels::nn::recomputed>(std::move(module));
  return module;
}

/// The layers of a route, wired up where they have ports, and how many losses each gives.
struct route_layers {
  std::vector<module_ptr> layers;
  std::vector<std::size_t> losses;
};

route_layers wire_up(const layout_request& wanted, std::vector<module_ptr> layers,
                     const std::vector<plan::layer_range>& ranges, model_layout& layout) {
  if (!kernels::nn::has_ports(layers)) { // The last one has the loss.
    std::vector<std::size_t> losses(layers.size(), 0);
    losses.back() = 1;
    return {std::move(layers), std::move(losses)};
  }
  std::vector<std::size_t> ends;
  for (const auto& range : ranges)
    ends.push_back(range.end);
  auto made = kernels::nn::wire(std::move(layers), wanted.values, ends);
  layout.leaps = std::move(made.leaps);
  return {std::move(made.layers), std::move(made.losses)};
}

/// Finds out who holds what, and which parameters have several holders.
void find_holders(model_layout& layout) {
  std::map<std::string, std::vector<parameter_holder>> holders;
  for (std::size_t rank = 0; rank < layout.chunks.size(); ++rank) {
    std::set<std::string> names;
    for (const auto& each : layout.chunks[rank])
      for (const auto& of : each.module->parameters()) {
        holders[of.name].push_back({static_cast<std::int32_t>(rank), ordinal_of(each, of)});
        names.insert(of.name);
      }
    layout.names.emplace_back(names.begin(), names.end());
  }
  for (auto& [name, places] : holders) {
    if (places.size() < 2)
      continue;
    std::ranges::sort(places, {}, &parameter_holder::ordinal);
    const auto same = std::ranges::adjacent_find(places, {}, &parameter_holder::ordinal);
    if (same != places.end())
      throw std::invalid_argument(fmt::format(
        "two layers have a parameter named {} and the same place in its sum: give tied parameters "
        "different accumulators, and others different names",
        name));
    layout.shared.push_back({name, std::move(places)});
  }
}

} // namespace

bool layout_request::recomputes(std::int32_t rank) const {
  return recompute_ranks.empty() ? recompute : std::ranges::count(recompute_ranks, rank) != 0;
}

model_layout lay_out(const layout_request& wanted) {
  const auto& plan = wanted.plan;
  model_layout layout;
  layout.chunks.resize(static_cast<std::size_t>(plan.ranks));
  for (std::size_t route = 0; route < plan.routes.size(); ++route) {
    auto layers = wanted.layers();
    auto ranges = ranges_of(wanted, layers.size());
    if (route == 0)
      for (const auto& range : ranges) {
        auto& names = layout.part_layers.emplace_back();
        for (auto i = range.begin; i < range.end; ++i)
          names.push_back(layers[i]->name());
      }
    join_layers(layers, ranges, plan, plan.routes[route]);
    auto wired = wire_up(wanted, std::move(layers), ranges, layout);
    const auto losses_in = [&](std::size_t begin, std::size_t end) {
      return static_cast<std::int32_t>(
        std::accumulate(wired.losses.begin() + static_cast<std::ptrdiff_t>(begin),
                        wired.losses.begin() + static_cast<std::ptrdiff_t>(end), std::size_t{0}));
    };
    for (const auto chunk : plan.routes[route]) {
      const auto& place = plan.chunks[static_cast<std::size_t>(chunk)];
      const auto& range = ranges[static_cast<std::size_t>(place.part)];
      layout.chunks[static_cast<std::size_t>(place.rank)].push_back(
        {chunk, static_cast<std::int32_t>(route),
         module_of(wired.layers, range, wanted.recomputes(place.rank)),
         losses_in(range.begin, range.end), losses_in(0, range.begin)});
    }
  }
  find_holders(layout);
  return layout;
}

} // namespace sluice::actors
