#include <algorithm>

#include "actors/plan/schedules/lane_writer.hpp"
#include "actors/plan/schedules/placement.hpp"
#include "actors/plan/schedules/schedules.hpp"

namespace sluice::plan::schedules {

/// Two pipelines over the same ranks in opposite directions, each with half of the micro-batches:
/// every rank has two whole stages, part r and part P-1-r. P = 4, M = 8, F = B = W = 1:
///
///     0 | 0124e5.3f.6ag..7bhc.d...
///     1 |  04152e.6a.3f.7bgchd.....
///     2 |  40516a.2e.7b.3fcgdh.....
///     3 | 4560a1.7b.2ec..3fdg.h...
///
/// P is even. With h = P/2, and q the distance of a rank from its nearer end, direction 0 is the
/// one that enters at that end. Of an odd number of micro-batches the first direction has one more.
/// The two replicas of a part sum the gradients of their own halves and exchange them at the end of
/// the step.
///
/// Cost: no idle time between a rank's first and last task with equal times (the paper's order,
/// which mixes whole and split backwards, idles (P/2-1)(F&B + B - 3W)); a rank holds P+1
/// activations and twice the weights.
/// Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024.
plan dual_pipe(const plan_request& wanted) {
  if (wanted.stages % 2 != 0)
    throw plan_error("dualpipe runs from both ends: it needs an even number of stages, not "
                     + std::to_string(wanted.stages));
  auto made = two_directions(wanted);
  const auto half = made.ranks / 2;
  for (std::int32_t r = 0; r < made.ranks; ++r) {
    auto& mine = made.by_rank[r];
    const auto from_end = std::min(r, made.ranks - 1 - r);
    const auto to_middle = half - from_end - 1;
    const auto near = r < half ? 0 : 1; // the direction that enters at the nearer end
    const auto far = 1 - near;
    lane_writer{made, r, mine.forwards}
      .take(near, 2 * to_middle)
      .in_turn(near, far, from_end + 1)
      .take(far, to_middle)
      .rest_in_turn(near, far);
    lane_writer{made, r, mine.backwards} //
      .take(far, to_middle)
      .rest_in_turn(far, near);
    mine.warm_up = mine.credits = made.ranks + 1;
  }
  split_backwards(made);
  return made;
}

} // namespace sluice::plan::schedules
