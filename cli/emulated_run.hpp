#pragma once

#include <CLI/App.hpp>

#include "cli/train_options.hpp"

namespace sluice::cli {

/// `sluice train` on an emulated device: the real actors run the plan with tasks that take time
/// without computing, and what they did is shown beside what the simulator plans. No data, no
/// weights. Of several steps it reports the one with the middle span.
///
/// Errors: usage_error, also for options that need weights; `given` tells which were given.
int run_emulated(const train_options& options, const CLI::App& given);

} // namespace sluice::cli
