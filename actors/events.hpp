#pragma once

#include <cstdint>
#include <functional>

#include "actors/plan/plan.hpp"
#include "actors/report.hpp"
#include "kernels/nn/stage_module.hpp"

namespace sluice::actors {

/// A task, as a callback sees it.
struct task_event {
  std::int32_t rank = 0;
  plan::task what = {};
  std::uint64_t step = 0; ///< optimizer steps so far
  kernels::nn::purpose purpose = kernels::nn::purpose::train;
};

/// What an embedder is told while a step runs. An empty function is not called.
///
/// Thread: those with a rank run on that stage's thread, between its tasks, and hold it up: several
/// stages call at the same time. step_done runs on a thread of the actor system.
/// Errors: what one throws fails the step with its text, as an exception of a module does.
struct step_events {
  std::function<void(const task_event&)> before_task = {};
  std::function<void(const task_event&)> after_task = {}; ///< its device is done with it

  /// The gradients of a rank's parameters are complete: summed over the micro-batches and over all
  /// places that hold a parameter; neither its norm nor the update has been taken yet, so it may
  /// change them (a parameter that several ranks hold: on each in the same way). Not called by
  /// plans that update within the step.
  std::function<void(std::int32_t rank, kernels::nn::parameter_list)> gradients_ready = {};

  /// A training step has ended, its update included, before its caller gets the report.
  std::function<void(const step_report&)> step_done = {};
};

} // namespace sluice::actors
