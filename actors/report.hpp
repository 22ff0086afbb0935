#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/plan/plan.hpp"

namespace sluice::actors {

struct stage_done;

/// One task as it ran, on the actor system's clock.
struct executed_task {
  plan::task what = {};
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

/// Memory of a stage, from its buffer pool.
struct stage_memory {
  std::int32_t peak_activations = 0; ///< micro-batches held at once, over its chunks
  std::uint64_t peak_activation_bytes = 0;
  std::uint64_t peak_transfer_bytes = 0; ///< receive slots and unsent outputs
  std::uint64_t peak_bytes = 0;          ///< everything, parameters included
  std::int32_t peak_weight_versions = 1; ///< kept at once by one chunk
  std::uint64_t device_allocations = 0;  ///< calls to the device's allocator since the start
};

/// One stage's part in a step.
struct stage_report {
  std::int32_t rank = 0;
  double busy_seconds = 0;         ///< in tasks
  double bubble = 0;               ///< 1 - busy / span
  double idle_seconds = 0;         ///< between its first and its last task: the schedule's cost
  std::optional<double> loss = {}; ///< the sum of its losses; none on a stage without a loss
  stage_memory memory = {};
};

/// What a training step (or an evaluation) did.
struct step_report {
  std::uint64_t step = 0;
  double loss = 0; ///< mean over the valid targets of the whole batch
  std::int64_t valid_targets = 0;
  double gradient_norm = 0;  ///< before clipping
  double gradient_scale = 1; ///< what clipping multiplied the gradients by
  double learning_rate = 0;
  bool skipped = false;    ///< a gradient was not finite: no stage changed a weight
  double seconds = 0;      ///< from the request to the report
  double span_seconds = 0; ///< from the first start of a task to the last end
  double bubble = 0;       ///< 1 - work / (stages x span)
  std::vector<stage_report> stages = {};
  std::vector<std::vector<executed_task>> tasks = {}; ///< by rank, in the order of their start
};

/// Fills span, bubble and stages from what the stages reported.
void summarise(step_report& into, std::vector<stage_done> stages);

} // namespace sluice::actors
