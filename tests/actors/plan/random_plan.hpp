#pragma once

#include <algorithm>
#include <random>

#include "actors/plan/make_plan.hpp"
#include "actors/plan/simulate.hpp"

namespace sluice::plan {

/// A plan of sound shape, and otherwise anything: lanes of a shipped schedule with entries swapped,
/// and credits, warm-up levels, stand-ins and slots at random. About half can finish.
inline plan random_plan(std::mt19937_64& random) {
  const auto below = [&](std::int32_t n) { return static_cast<std::int32_t>(random() % n); };
  const auto schedules = all_schedules();
  const auto& base = schedules[below(static_cast<std::int32_t>(schedules.size()))];
  auto made = make_plan(base.name, {.stages = 2 * (1 + below(3)),
                                    .micro_batches = 1 + below(7),
                                    .chunks = base.chunks_free ? 1 + below(3) : base.chunks});
  made.receive_slots = below(3) == 0 ? 1 + below(3) : 0;
  if (made.parts > 3 && below(4) == 0)
    made.skips.push_back({0, made.parts - 1 - below(2)});
  const auto swap_some = [&](auto& lane) {
    if (lane.size() > 1)
      for (auto swaps = below(5) == 0 ? 1 + below(3) : 0; swaps > 0; --swaps)
        std::swap(lane[below(static_cast<std::int32_t>(lane.size()))],
                  lane[below(static_cast<std::int32_t>(lane.size()))]);
  };
  const bool wild_credits = below(2) == 0;
  for (auto& mine : made.by_rank) {
    swap_some(mine.forwards);
    swap_some(mine.backwards);
    swap_some(mine.weights);
    swap_some(mine.order);
    if (wild_credits) {
      mine.credits = 1 + below(mine.credits + 2);
      mine.warm_up = below(mine.warm_up + 3);
      mine.stand_in = below(3) > 0;
      mine.backward_lead = below(3) == 0 ? below(3) : rank_plan::any;
    }
  }
  if (below(8) == 0)
    if (const auto ran = simulate(made); ran.finished)
      made = freeze(made, ran);
  return made;
}

inline conditions random_timing(const plan& of, std::mt19937_64& random) {
  const auto share = [&] { return static_cast<double>(random() % 1000) / 1000; };
  conditions under;
  for (std::size_t c = 0; c < of.chunks.size(); ++c)
    under.by_chunk.push_back({0.1 + share(), 0.1 + share(), 0.1 + share(), share()});
  under.between = {.latency = random() % 3 == 0 ? 3 * share() : 0,
                   .bandwidth = random() % 3 == 0 ? 0.2 + share() : 0,
                   .overlaps_tasks = random() % 4 != 0};
  under.message_bytes = share();
  under.noise = {
    .sigma = random() % 2 == 0 ? 1. : 0., .slow_share = 0.1, .slow_factor = 9, .seed = random()};
  if (random() % 4 == 0)
    under.dispatch_ahead = 1 + static_cast<std::int32_t>(random() % 3);
  under.dispatch_time = random() % 4 == 0 ? 0.1 * share() : 0;
  return under;
}

} // namespace sluice::plan
