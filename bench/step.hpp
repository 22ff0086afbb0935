#pragma once

#include <string>
#include <vector>

#include "bench/measurement.hpp"

namespace sluice::bench {

/// A training step of the default GPT, in one stage and in four, and PyTorch's step of the same
/// network in one process on as many threads as have a stage or a core; all in turn, so often as
/// `rounds` says. `python` is run for the peer; without a torch there is none.
///
/// Units: seconds a step, tokens a second.
/// Errors: std::runtime_error if PyTorch is there and fails.
std::vector<measurement> measure_step(int rounds, const std::string& python);

} // namespace sluice::bench
