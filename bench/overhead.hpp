#pragma once

#include <vector>

#include "bench/measurement.hpp"

namespace sluice::bench {

/// What a pipeline adds to the same layers in a plain serial loop: a step of the default GPT in one
/// stage, where everything else is equal; steps of one whose tasks take next to no time, in 1, 2
/// and 4 stages; and from these what each task costs more. A loop and a step of each pipeline run
/// in turn, so often as `rounds` says.
///
/// Units: seconds a step, and seconds added to a task (without a peer).
/// Errors: std::runtime_error if the two do not compute the same loss.
std::vector<measurement> measure_overhead(int rounds);

} // namespace sluice::bench
