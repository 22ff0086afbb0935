#include "actors/plan/random_plan.hpp"

#include <algorithm>

#include "actors/plan/make_plan.hpp"

namespace sluice::plan {

namespace {

/// Draws by remainder: the standard's distributions differ between libraries.
class dice {
public:
  explicit dice(std::mt19937_64& random) : random_(random) {}

  std::int32_t below(std::int32_t n) {
    return static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(n));
  }
  bool one_in(std::int32_t n) { return below(n) == 0; }

private:
  std::mt19937_64& random_;
};

plan random_schedule(dice& roll, const random_limits& within) {
  const auto schedules = all_schedules();
  for (;;) {
    const auto& base = schedules[roll.below(static_cast<std::int32_t>(schedules.size()))];
    const plan_request wanted{.stages = 1 + roll.below(within.stages),
                              .micro_batches = 1 + roll.below(within.micro_batches),
                              .chunks =
                                base.chunks_free ? 1 + roll.below(within.chunks) : base.chunks};
    try {
      auto made = make_plan(base.name, wanted);
      if (within.asynchronous || !made.asynchronous)
        return made;
    } catch (const plan_error&) {
      // This schedule has no such shape, as DualPipe has none for odd numbers of stages.
    }
  }
}

template <class Lane>
void swap_some(Lane& lane, dice& roll) {
  const auto size = static_cast<std::int32_t>(lane.size());
  if (size < 2 || !roll.one_in(5))
    return;
  for (auto swaps = 1 + roll.below(3); swaps > 0; --swaps) {
    const auto first = roll.below(size);
    std::swap(lane[first], lane[roll.below(size)]);
  }
}

} // namespace

plan random_plan(std::mt19937_64& random, const random_limits& within) {
  dice roll{random};
  auto made = random_schedule(roll, within);
  made.receive_slots = roll.one_in(3) ? 1 + roll.below(3) : 0;
  if (within.skips && made.parts > 3 && roll.one_in(4))
    made.skips.push_back({0, made.parts - 1 - roll.below(2)});
  const bool wild_lanes = roll.one_in(2);
  const bool wild_credits = roll.one_in(2);
  for (auto& mine : made.by_rank) {
    if (wild_lanes) {
      swap_some(mine.forwards, roll);
      swap_some(mine.backwards, roll);
      swap_some(mine.weights, roll);
      swap_some(mine.order, roll);
    }
    if (wild_credits) {
      mine.credits = 1 + roll.below(mine.credits + 2);
      mine.warm_up = roll.below(mine.warm_up + 3);
      mine.stand_in = !roll.one_in(3);
      mine.backward_lead = roll.one_in(3) ? roll.below(3) : rank_plan::any;
    }
  }
  if (roll.one_in(8))
    if (const auto ran = simulate(made); ran.finished)
      made = freeze(made, ran);
  return made;
}

conditions random_timing(const plan& of, std::mt19937_64& random) {
  dice roll{random};
  const auto share = [&] { return roll.below(1000) / 1000.0; };
  conditions under;
  for (std::size_t c = 0; c < of.chunks.size(); ++c) {
    task_times times;
    times.forward = 0.1 + share();
    times.backward = 0.1 + share();
    times.weight = 0.1 + share();
    times.update = share();
    under.by_chunk.push_back(times);
  }
  if (roll.one_in(3))
    under.between.latency = 3 * share();
  if (roll.one_in(3))
    under.between.bandwidth = 0.2 + share();
  under.between.overlaps_tasks = !roll.one_in(4);
  under.message_bytes = share();
  under.noise = {
    .sigma = roll.one_in(2) ? 1. : 0., .slow_share = 0.1, .slow_factor = 9, .seed = random()};
  if (roll.one_in(4))
    under.look_ahead = 1 + roll.below(3);
  if (roll.one_in(4))
    under.dispatch_time = 0.1 * share();
  return under;
}

} // namespace sluice::plan
