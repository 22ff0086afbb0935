#include <algorithm>

#include "actors/plan/schedules/schedules.hpp"

/// Two asynchronous schedules: weights are updated within the step, so the pipeline never drains
/// between updates, and gradients are those of older weights. Which version of the weights a
/// micro-batch sees is written in the lanes, an edge of the graph: forwards wait for their version,
/// however early their input comes, and backwards use the one that their forward used. The result
/// is a function of the plan, never of timing.
///
/// No norm over all ranks can be had in time, so gradients are not clipped by it.
namespace sluice::plan::schedules {

/// 1F1B with an update after every backward. P = 4, M = 6, F = whole backward = 1, updates in no
/// time:
///
///     0 | 0123   a4b5c d e f
///     1 |  012  a3b4c5d e f
///     2 |   01 a2b3c4d5e f
///     3 |    0a1b2c3d4e5f
///
/// Rank r runs the forward of micro-batch m when m-(P-r)+1 updates have been made, stashes that
/// version, and applies the gradient to the newest.
///
/// Cost: the ramp of 1F1B, once however long the step; rank r keeps P-r versions of its weights.
/// Source: Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", 2019.
plan pipe_dream(const plan_request& wanted) {
  auto made = one_f_one_b(wanted);
  made.asynchronous = true;
  for (std::int32_t r = 0; r < made.ranks; ++r) {
    auto& mine = made.by_rank[r];
    for (std::int32_t m = 0; m < made.micro_batches; ++m) {
      const auto version = std::max(m - mine.warm_up + 1, 0);
      mine.forwards[m].version = version;
      mine.backwards[m].version = version;
      mine.updates.push_back({.chunk = r, .micro_batch = m, .version = m + 1});
    }
  }
  return made;
}

/// 1F1B with an update after every P micro-batches, made from gradients of the version before the
/// newest: two versions are enough. P = 4, M = 8, F = whole backward = 1, updates in no time:
///
///     0 | 0123   a4b5c6d7e f g h
///     1 |  012  a3b4c5d6e7f g h
///     2 |   01 a2b3c4d5e6f7g h
///     3 |    0a1b2c3d4e5f6g7h
///
/// With groups of at least P micro-batches, the update of the group before the last is always made
/// when a group's first forward comes. The last group may be smaller.
///
/// Cost: the ramp of 1F1B, once however long the step; every rank keeps two versions.
/// Source: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", 2021.
plan pipe_dream_2bw(const plan_request& wanted) {
  auto made = one_f_one_b(wanted);
  made.asynchronous = true;
  for (std::int32_t r = 0; r < made.ranks; ++r) {
    auto& mine = made.by_rank[r];
    for (std::int32_t m = 0; m < made.micro_batches; ++m) {
      const auto group = m / made.ranks;
      const auto version = std::max(group - 1, 0);
      mine.forwards[m].version = version;
      mine.backwards[m].version = version;
      if ((m + 1) % made.ranks == 0 || m + 1 == made.micro_batches)
        mine.updates.push_back({.chunk = r, .micro_batch = m, .version = group + 1});
    }
  }
  return made;
}

} // namespace sluice::plan::schedules
