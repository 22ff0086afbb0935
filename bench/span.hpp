#pragma once

#include <cstdint>
#include <vector>

#include "bench/measurement.hpp"

namespace sluice::bench {

struct span_options {
  std::int32_t stages = 8;
  std::int32_t micro_batches = 32;
  double task_seconds = 10e-3; ///< F, B and W each, of a chunk: every task takes this long
  int steps = 3;
};

/// The span of every synchronous schedule as the real actors run it on emulated devices, beside the
/// span that the simulator plans for stages as patient as they are: what messages, timers and
/// dispatch cost. Of several steps the fastest counts.
std::vector<measurement> measure_spans(const span_options& how);

} // namespace sluice::bench
