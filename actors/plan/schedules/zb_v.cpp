#include "actors/plan/schedules/lane_writer.hpp"
#include "actors/plan/schedules/placement.hpp"
#include "actors/plan/schedules/schedules.hpp"

namespace sluice::plan::schedules {

/// Down the ranks and up again, so that the first backward starts where the first forward did: no
/// idle time at the memory of 1F1B. P = 4, M = 8, F = B = W = 1 a chunk (digits and letters name
/// the micro-batch):
///
///     0 | 01234560a.1b.2c.3d.7a.4e.b.5f.c.6g.d.7he.f.g.h..
///     1 |  01234051a.2b.3c.6a.4d.7b.5e.cf6..dg7.ehf.g.h....
///     2 |   01203142a.3b.5a.4c.6b.5d.7c.6e.df7.egfhg.h......
///     3 |    00112233a.4a.4b.5b.5c.6c.6d.7d.7eeffgghh........
///
/// Weight gradients float: an explicit order made by hand from the same pattern, W right after B,
/// idles 1.5 at P = 4 and 7.5 at P = 16.
///
/// Cost: no idle time between a rank's first and last task with equal times; every rank holds P
/// activations (2P halves).
/// Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023 (ZB-V).
plan zb_v(const plan_request& wanted) {
  auto made = v_shaped(wanted);
  for (std::int32_t r = 0; r < made.ranks; ++r) {
    auto& mine = made.by_rank[r];
    const auto ahead = made.ranks - r; // ranks from here to the turn, this one included
    lane_writer{made, r, mine.forwards}
      .take(0, 2 * ahead - 1) // until the first micro-batch comes back up
      .in_turn(1, 0, r)
      .take(1, ahead)
      .rest_in_turn(0, 1);
    lane_writer{made, r, mine.backwards} //
      .take(1, ahead)
      .rest_in_turn(0, 1);
    mine.warm_up = mine.credits = 2 * made.ranks;
  }
  split_backwards(made);
  return made;
}

} // namespace sluice::plan::schedules
