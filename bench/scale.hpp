#pragma once

#include <vector>

#include "bench/measurement.hpp"

namespace sluice::bench {

/// One model in 1, 2 and 4 stages under 1F1B: on emulated devices, of which each has its share of
/// the tasks' time, and the default GPT on this machine's cores. Beside each stands what the plan
/// makes of the time in one stage, were the stages equal; of real ones, also no less than the cores
/// allow. All stage counts run in turn, so often as `rounds` says.
///
/// Units: seconds: the span of a step on emulated devices, the whole step on real ones.
std::vector<measurement> measure_scale(int rounds);

} // namespace sluice::bench
