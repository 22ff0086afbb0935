#include "actors/plan/schedules/placement.hpp"
#include "actors/plan/schedules/schedules.hpp"

namespace sluice::plan::schedules {

/// All forwards, then all backwards. P = 4, M = 6, F = whole backward = 1:
///
///     0 | 012345      abcdef
///     1 |  012345    abcdef
///     2 |   012345  abcdef
///     3 |    012345abcdef
///
/// Cost: a rank idles (F + B + W)(P-1); all M activations are held.
/// Source: Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline
/// Parallelism", 2019.
plan gpipe(const plan_request& wanted) {
  auto made = straight(wanted);
  for (auto& mine : made.by_rank)
    mine.warm_up = mine.credits = made.micro_batches;
  return made;
}

} // namespace sluice::plan::schedules
