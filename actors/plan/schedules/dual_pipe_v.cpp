#include "actors/plan/schedules/schedules.hpp"

#include <algorithm>

namespace sluice::plan::schedules {

/// DualPipe folded in the middle: the V and the lanes of ZB-V, so that no part is there twice, and
/// backwards split only where a weight gradient fills a gap: the first P-r-1 of rank r, between
/// which forwards come back up, and the last P, whose weight gradients fill the end. All others are
/// whole, which spares the memory and the second pass of a split. P = 4, M = 8, F = B = W = 1 a
/// chunk:
///
///     0 | 01234560a.1b.2c.3ddaa7 4eebb 5ffcc 6ggdd7hhe.f.g.h.
///     1 |  01234051a.2b.3ccaa6dd4bb7ee5cc ff6dd 7ggeehf.g.h..
///     2 |   01203142a.3bbaa5cc4bb6dd5cc7ee6ddff7 eeggfhg.h...
///     3 |    00112233aaaa4bb4bb5cc5cc6dd6dd7ee7eeffffgghh....
///
/// Cost: a rank idles at most (P-1)(F&B + B - 3W), in chunk times, where F&B is a forward and a
/// whole backward run as one and B is whole; every rank holds P activations.
/// Source: DeepSeek-AI, DualPipe (DualPipeV), 2025; after Qi et al., cut-in-half schedule, 2025.
plan dual_pipe_v(const plan_request& wanted) {
  auto made = zb_v(wanted);
  for (std::int32_t r = 0; r < made.ranks; ++r) {
    auto& mine = made.by_rank[r];
    mine.credits = 2 * made.ranks;
    mine.warm_up = 2 * made.ranks - 1; // one less than ZB-V: whole backwards are long to wait for
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
