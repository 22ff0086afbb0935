#include "actors/plan/plan.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace sluice::plan {

char letter(task_kind kind) noexcept {
  return "FBW"[static_cast<std::size_t>(kind)];
}

std::string to_string(const task& which) {
  return fmt::format("{}{} of chunk {}", letter(which.kind), which.micro_batch, which.chunk);
}

namespace {

std::int32_t neighbour(const plan& of, std::int32_t chunk, std::int32_t micro_batch, int step) {
  const auto& route = of.route(micro_batch);
  const auto at = std::find(route.begin(), route.end(), chunk) - route.begin() + step;
  return at < 0 || at >= static_cast<std::ptrdiff_t>(route.size())
           ? -1
           : route[static_cast<std::size_t>(at)];
}

} // namespace

std::int32_t previous_chunk(const plan& of, std::int32_t chunk, std::int32_t micro_batch) {
  return neighbour(of, chunk, micro_batch, -1);
}

std::int32_t next_chunk(const plan& of, std::int32_t chunk, std::int32_t micro_batch) {
  return neighbour(of, chunk, micro_batch, +1);
}

std::int64_t task_count(const plan& of, std::int32_t rank) {
  const auto& mine = of.by_rank[static_cast<std::size_t>(rank)];
  return static_cast<std::int64_t>(mine.forwards.size())
         + static_cast<std::int64_t>(mine.backwards.size()) * (of.split_backward ? 2 : 1);
}

} // namespace sluice::plan
