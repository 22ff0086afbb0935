#include "actors/plan/schedules/placement.hpp"

#include <numeric>

namespace sluice::plan::schedules {

namespace {

plan empty(const plan_request& wanted, std::int32_t parts) {
  plan made;
  made.ranks = wanted.stages;
  made.micro_batches = wanted.micro_batches;
  made.parts = parts;
  made.by_rank.resize(wanted.stages);
  made.route_of.assign(wanted.micro_batches, 0);
  return made;
}

std::vector<std::int32_t> run_of_chunks(std::int32_t first, std::int32_t count) {
  std::vector<std::int32_t> route(count);
  std::iota(route.begin(), route.end(), first);
  return route;
}

} // namespace

plan straight(const plan_request& wanted) {
  auto made = looped({.stages = wanted.stages, .micro_batches = wanted.micro_batches, .chunks = 1});
  for (std::int32_t r = 0; r < made.ranks; ++r)
    for (std::int32_t m = 0; m < made.micro_batches; ++m) {
      made.by_rank[r].forwards.push_back({.chunk = r, .micro_batch = m});
      made.by_rank[r].backwards.push_back({.chunk = r, .micro_batch = m});
    }
  return made;
}

plan looped(const plan_request& wanted) {
  auto made = empty(wanted, wanted.stages * wanted.chunks.value_or(1));
  for (std::int32_t c = 0; c < made.parts; ++c)
    made.chunks.push_back({.rank = c % made.ranks, .part = c, .local = c / made.ranks});
  made.routes = {run_of_chunks(0, made.parts)};
  return made;
}

plan v_shaped(const plan_request& wanted) {
  auto made = empty(wanted, 2 * wanted.stages);
  for (std::int32_t c = 0; c < made.parts; ++c) {
    const bool down = c < made.ranks;
    made.chunks.push_back(
      {.rank = down ? c : made.parts - 1 - c, .part = c, .local = down ? 0 : 1});
  }
  made.routes = {run_of_chunks(0, made.parts)};
  return made;
}

plan two_directions(const plan_request& wanted) {
  auto made = empty(wanted, wanted.stages);
  for (std::int32_t c = 0; c < 2 * made.parts; ++c) {
    const bool down = c < made.ranks;
    made.chunks.push_back(
      {.rank = down ? c : 2 * made.ranks - 1 - c, .part = c % made.parts, .local = down ? 0 : 1});
  }
  made.routes = {run_of_chunks(0, made.parts), run_of_chunks(made.parts, made.parts)};
  for (std::int32_t m = (made.micro_batches + 1) / 2; m < made.micro_batches; ++m)
    made.route_of[m] = 1;
  return made;
}

void split_backwards(plan& made) {
  for (auto& mine : made.by_rank) {
    mine.weights = mine.backwards;
    for (auto& backward : mine.backwards)
      backward.split = true;
  }
}

} // namespace sluice::plan::schedules
