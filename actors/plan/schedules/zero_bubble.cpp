#include "actors/plan/schedules/placement.hpp"
#include "actors/plan/schedules/schedules.hpp"

namespace sluice::plan::schedules {

/// 1F1B with split backwards: what a rank waited for at the end it now fills with weight
/// gradients. P = 4, M = 6, F = B = W = 1:
///
///     0 | 0123   a.4b.5c.d.e.f.
///     1 |  0123 a.b.4c.5d.e.f.
///     2 |   012a3b.c.4d.5e.f..
///     3 |    0a1b2c3d.4e.5f....
///
/// Rank r still takes in P-r micro-batches before its first backward. Every rank may hold P
/// activations, the peak of 1F1B's first rank, so weight gradients may be late by r, and they are
/// as late as that when nothing else can run. (W at once after B would cost twice as much; W
/// strictly last would stop forwards for want of credits.) A backward stands in for a late forward
/// once, not more often: that costs a rank less under mild jitter than running on would.
///
/// Cost: a rank idles (F + B - 2W)(P-1) + W(P-1), that is P-1 with equal times; it holds P
/// activations.
/// Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023.
plan zb_h1(const plan_request& wanted) {
  auto made = straight(wanted);
  for (std::int32_t r = 0; r < made.ranks; ++r) {
    made.by_rank[r].warm_up = made.ranks - r;
    made.by_rank[r].credits = made.ranks;
    made.by_rank[r].backward_lead = 1;
  }
  split_backwards(made);
  return made;
}

/// Twice the activations of 1F1B for no idle time between a rank's first and last task. P = 4,
/// M = 6, F = B = W = 1:
///
///     0 | 012345 a.b.c.d.e.f.
///     1 |  01234a5b.c.d.e.f..
///     2 |   012a3b4c5d.e.f....
///     3 |    0a1b2c3d4e5f......
///
/// The round trip from rank r to the end and back takes 2(P-r)-1 tasks each way filled with
/// forwards, so rank r takes in that many before its first backward. The ranks end one after
/// another as they began: a barrier at the end of the step gives part of the gain back.
///
/// Cost: a rank idles (F + B - 2W)(P-1), that is 0 with equal times; it holds 2P-1 activations.
/// Source: as above.
plan zb_h2(const plan_request& wanted) {
  auto made = straight(wanted);
  for (std::int32_t r = 0; r < made.ranks; ++r) {
    made.by_rank[r].warm_up = 2 * (made.ranks - r) - 1;
    made.by_rank[r].credits = 2 * made.ranks - 1;
  }
  split_backwards(made);
  return made;
}

} // namespace sluice::plan::schedules
