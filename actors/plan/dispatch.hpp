#pragma once

#include <cstdint>
#include <optional>

#include "actors/plan/plan.hpp"

namespace sluice::plan {

/// How far a rank is within a step. Everything that dispatch() needs beside the rank's plan, and
/// all of it counts, so that it is cheap to keep and to print.
struct rank_progress {
  std::int32_t forwards_started = 0;
  std::int32_t backwards_started = 0;
  std::int32_t weights_started = 0;
  std::int32_t weights_ready = 0;    ///< backwards finished, whose W may run (0 without split)
  std::int32_t activations_held = 0; ///< forwards started, less activations released
  bool forward_here = false;         ///< whether the input of the next forward has arrived
  bool backward_here = false;        ///< whether the input of the next backward has arrived
};

/// The whole choice of an idle rank: which kind of task to start now, the next of its lane; or
/// nothing, which means: wait for a message.
///
/// Warm-up, steady state and cool-down are nowhere in it. They emerge: while fewer than `warm_up`
/// micro-batches are under way a rank wants forwards, then a backward for each forward, and when
/// its forwards are used up, backwards.
std::optional<task_kind> dispatch(const rank_plan& mine, const rank_progress& now);

/// Whether every task of the rank has started.
bool all_started(const rank_plan& mine, const rank_progress& now, bool split_backward);

} // namespace sluice::plan
