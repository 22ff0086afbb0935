#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "actors/plan/plan.hpp"

namespace sluice::plan {

/// How far a rank is within a step: everything that dispatch() needs beside the rank's plan. The
/// head of a lane is the first entry not yet started; an exhausted lane has none.
struct rank_progress {
  std::int32_t forwards_started = 0;
  std::int32_t backwards_started = 0;
  std::int32_t weights_started = 0;
  std::int32_t updates_started = 0;
  std::int32_t activations_held = 0; ///< forwards started, less activations released
  bool forward_here = false;  ///< the head of F has its input, its weights, a slot for its output
  bool backward_here = false; ///< the head of B has its input and a slot for its output
  bool weight_here = false;   ///< the backward of the head of W is done
  bool update_here = false;   ///< all gradients that the head of U applies are summed

  bool operator==(const rank_progress&) const = default;
};

/// The whole choice of an idle rank: which kind of task to start now, the head of its lane; or
/// nothing, which means: wait for a message.
///
/// Warm-up, steady state and cool-down are nowhere in it. They emerge: while fewer than `warm_up`
/// micro-batches are under way a rank wants forwards, then a backward for each forward, and when
/// its forwards are used up, backwards.
std::optional<task_kind> dispatch(const rank_plan& mine, const rank_progress& now);

/// Whether what dispatch() chooses now stands in for a task that only its input is missing for.
/// With inputs that are due at the very moment, a rank that grabs a stand-in at once is busy when
/// they come: ZB-H1 then costs 12 in place of 7 (P = 8), however small the latency is. So whoever
/// runs the rule first waits a little: patient_for().
bool is_stand_in(const rank_plan& mine, const rank_progress& now);

/// How long after the end of its last task an idle rank hopes for the input that it wants before it
/// takes a stand-in: `patience`, for about as long as two messages take, and at most a tenth of
/// that task. Where tasks are as short as messages, waiting costs more than it saves: at P = 8,
/// M = 32 and a latency of a quarter of a task V-Half costs 21 without patience, 31 with a tenth of
/// a task of it, and 41 with as much as the latency.
double patient_for(double patience, double last_task);

/// The patience of stage actors: twice what a message between two threads takes. By simulation at
/// P = 8, M = 32, tasks of 10 ms and a latency of 50 us ZB-H1 costs 12.1 tasks without it, 8.4
/// with it.
inline constexpr std::chrono::nanoseconds default_patience = std::chrono::microseconds{100};
inline constexpr double default_patience_seconds =
  std::chrono::duration<double>(default_patience).count();

/// Whether every task of the rank has started.
bool all_started(const rank_plan& mine, const rank_progress& now);

} // namespace sluice::plan
