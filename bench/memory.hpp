#pragma once

#include <vector>

#include "bench/measurement.hpp"

namespace sluice::bench {

/// The default GPT in four stages under every synchronous schedule: the peak of what each rank held
/// for backwards to come, and what the plan predicts: what each layer was measured to keep, times
/// the micro-batches that the simulated plan holds at once. The prediction counts an activation
/// from its forward to the end of its backward, W included; a split backward gives some back at B.
/// What a rank really holds at once also hangs on the times of its tasks, which the simulation
/// takes for equal.
///
/// Units: bytes, by rank.
std::vector<measurement> measure_memory();

} // namespace sluice::bench
