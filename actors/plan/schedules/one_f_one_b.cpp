#include "actors/plan/schedules/placement.hpp"
#include "actors/plan/schedules/schedules.hpp"

namespace sluice::plan::schedules {

/// A backward as soon as the last rank can send one, then forward and backward in turn. P = 4,
/// M = 6, F = whole backward = 1 (18 slots: drawings with 15 break dependencies):
///
///     0 | 0123   a4b5c d e f
///     1 |  012  a3b4c5d e f
///     2 |   01 a2b3c4d5e f
///     3 |    0a1b2c3d4e5f
///
/// Rank r takes in P-r micro-batches before its first backward, as many as there are ranks from it
/// to the end, and holds no more: one credit more would not start anything earlier. At that few
/// credits a forward that stands in for a late backward only takes the place of the next one, which
/// costs time under jitter, so the order is fixed.
///
/// Cost: a rank idles (F + B + W)(P-1); rank r holds min(M, P-r) activations.
/// Source: Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", 2019;
/// with one update a step: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training",
/// 2021 (PipeDream-Flush).
plan one_f_one_b(const plan_request& wanted) {
  auto made = straight(wanted);
  for (std::int32_t r = 0; r < made.ranks; ++r) {
    auto& mine = made.by_rank[r];
    mine.warm_up = mine.credits = made.ranks - r;
    mine.stand_in = false;
  }
  return made;
}

} // namespace sluice::plan::schedules
