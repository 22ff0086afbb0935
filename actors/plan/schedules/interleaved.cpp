#include <algorithm>

#include "actors/plan/schedules/placement.hpp"
#include "actors/plan/schedules/schedules.hpp"

namespace sluice::plan::schedules {

namespace {

/// Micro-batches go round in groups of P: a group passes all chunks of a rank, first to last in
/// its forwards and last to first in its backwards, before the next group enters. The last group
/// may be smaller.
void group_lanes(plan& made, std::int32_t chunks) {
  for (std::int32_t r = 0; r < made.ranks; ++r) {
    auto& mine = made.by_rank[r];
    for (std::int32_t first = 0; first < made.micro_batches; first += made.ranks) {
      const auto last = std::min(first + made.ranks, made.micro_batches);
      for (std::int32_t v = 0; v < chunks; ++v)
        for (auto m = first; m < last; ++m) {
          mine.forwards.push_back({.chunk = v * made.ranks + r, .micro_batch = m});
          mine.backwards.push_back({.chunk = (chunks - 1 - v) * made.ranks + r, .micro_batch = m});
        }
    }
  }
}

/// The forwards that rank r has run when its first backward arrives: a group through all but the
/// last chunk, one more, and one for each hop to the last rank and back.
std::int32_t forwards_before_backward(const plan& made, std::int32_t rank, std::int32_t chunks) {
  return 2 * (made.ranks - rank - 1) + (chunks - 1) * made.ranks + 1;
}

} // namespace

/// V chunks a rank, dealt round: the pipeline is filled by tasks that are V times as short. P = 4,
/// V = 2, M = 8, F = whole backward = 1 a chunk (digits and letters name the micro-batch; the
/// second chunk's are not told apart):
///
///     0 | 01230123456a7b c4d5a6b7c d e f g hefgh
///     1 |  012301234a5b6c7d4a5b6c7d e f g hefgh
///     2 |   0123012a3b4c5d6a7b4c5d6e7f g hefgh
///     3 |    01230a1b2c3d4a5b6c7d4e5f6g7hefgh
///
/// The lanes must be ordered: with any ready forward in any order, chunk 0 takes all credits and
/// the pipeline stands still.
///
/// Cost: a rank idles (F + B + W)(P-1)/V where M is a multiple of P; rank 0 holds
/// P(V+1)-1 activations of a V-th.
/// Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
/// Megatron-LM", 2021.
plan interleaved(const plan_request& wanted) {
  auto made = looped(wanted);
  const auto chunks = *wanted.chunks;
  group_lanes(made, chunks);
  for (std::int32_t r = 0; r < made.ranks; ++r)
    made.by_rank[r].warm_up = made.by_rank[r].credits = forwards_before_backward(made, r, chunks);
  return made;
}

/// The same lanes with split backwards, and on every rank the credits of the first one: weight
/// gradients fill what is left. P = 4, V = 2, M = 8, F = B = W = 1 a chunk:
///
///     0 | 01230123456a.7bc.4.5d.6a.7bc..de..fg..hefgh.....
///     1 |  012301234a5b6c.7d.4a.5b.6c.7de..fg..hefgh.......
///     2 |   0123012a3b4c5d6a.7b.4c.5d.6e.7fg..hefgh.........
///     3 |    01230a1b2c3d4a5b6c.7d.4e.5f.6g.7hefgh...........
///
/// Cost: no idle time between a rank's first and last task with equal times; every rank holds
/// P(V+1)-1 activations of a V-th.
/// Source: the placement of Narayanan et al., 2021, with the split of Qi et al., 2023.
plan interleaved_zb(const plan_request& wanted) {
  auto made = interleaved(wanted);
  for (auto& mine : made.by_rank)
    mine.credits = made.by_rank[0].warm_up;
  split_backwards(made);
  return made;
}

} // namespace sluice::plan::schedules
