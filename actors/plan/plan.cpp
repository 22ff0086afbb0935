#include "actors/plan/plan.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace sluice::plan {

char letter(task_kind kind) noexcept {
  return "FBWU"[static_cast<std::size_t>(kind)];
}

std::string to_string(const task& which) {
  return fmt::format("{}{} of chunk {}", letter(which.kind), which.micro_batch, which.chunk);
}

std::string to_string(const plan& of, const task& which) {
  const auto& place = of.chunks[which.chunk];
  return fmt::format("{}{} of chunk {} on rank {}", letter(which.kind), which.micro_batch,
                     place.local, place.rank);
}

const std::vector<lane_entry>& rank_plan::lane(task_kind kind) const {
  switch (kind) {
  case task_kind::forward:
    return forwards;
  case task_kind::backward:
    return backwards;
  case task_kind::weight:
    return weights;
  case task_kind::update:
    break;
  }
  return updates;
}

std::vector<lane_entry>& rank_plan::lane(task_kind kind) {
  return const_cast<std::vector<lane_entry>&>(std::as_const(*this).lane(kind));
}

std::int64_t rank_plan::tasks() const {
  return static_cast<std::int64_t>(forwards.size() + backwards.size() + weights.size()
                                   + updates.size());
}

bool splits(const plan& of) {
  return std::any_of(of.by_rank.begin(), of.by_rank.end(),
                     [](const rank_plan& mine) { return !mine.weights.empty(); });
}

topology::topology(const plan& of)
  : sources_(of.chunks.size()),
    targets_(of.chunks.size()),
    route_(of.chunks.size(), -1) {
  const auto connect = [this](std::int32_t from, std::int32_t to) {
    targets_[from].push_back(to);
    sources_[to].push_back(from);
  };
  for (std::size_t r = 0; r < of.routes.size(); ++r) {
    const auto& route = of.routes[r];
    for (std::size_t i = 0; i < route.size(); ++i) {
      route_[route[i]] = static_cast<std::int32_t>(r);
      if (i > 0)
        connect(route[i - 1], route[i]);
    }
    for (const auto& skip : of.skips) // a route passes the parts in order
      connect(route[skip.from_part], route[skip.to_part]);
  }
}

std::span<const std::int32_t> topology::receivers(task_kind kind, std::int32_t chunk) const {
  switch (kind) {
  case task_kind::forward:
    return targets(chunk);
  case task_kind::backward:
    return sources(chunk);
  default:
    return {};
  }
}

} // namespace sluice::plan
