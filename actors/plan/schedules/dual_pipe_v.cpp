#include "actors/plan/schedules/schedules.hpp"

#include <algorithm>

namespace sluice::plan::schedules {

/// DualPipe folded in the middle: the V and the lanes of ZB-V, so that no part is there twice, and
/// backwards split only where a weight gradient fills a gap: the first P-r-1 of rank r, between
/// which forwards come back up, and the last P, whose weight gradients fill the end. All others are
/// whole, which spares the memory and the second pass of a split. P = 4, M = 8, F = B = W = 1 a
/// chunk:
///
///     0 | 01234560a1b.2c.3.7dd4aaee5 bbff6 ccgg7 ddhhe.f.g.h.
///     1 |  01234051a2b.3.6cc4aa7dd5bbee6 ccff7 ddggeehf.g.h..
///     2 |   01203142a3.5bb4aa6cc5bb7dd6ccee7 ddffeeggfhg.h...
///     3 |    001122334aa4aa5bb5bb6cc6cc7dd7ddeeeeffffgghh....
///
/// Cost: a rank idles at most (P-1)(F&B + B - 3W), in chunk times, where F&B is a forward and a
/// whole backward run as one and B is whole; every rank holds P activations and a half.
/// Source: DeepSeek-AI, DualPipe (DualPipeV), 2025; after Qi et al., cut-in-half schedule, 2025.
plan dual_pipe_v(const plan_request& wanted) {
  auto made = zb_v(wanted);
  for (std::int32_t r = 0; r < made.ranks; ++r) {
    auto& mine = made.by_rank[r];
    mine.warm_up = mine.credits = 2 * made.ranks + 1;
    mine.weights.clear();
    const auto backwards = static_cast<std::int32_t>(mine.backwards.size());
    for (std::int32_t i = 0; i < backwards; ++i) {
      auto& backward = mine.backwards[i];
      backward.split = i < made.ranks - r - 1 || i >= backwards - made.ranks;
      if (backward.split)
        mine.weights.push_back({.chunk = backward.chunk, .micro_batch = backward.micro_batch});
    }
  }
  return made;
}

} // namespace sluice::plan::schedules
