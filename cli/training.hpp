#pragma once

#include <CLI/App.hpp>

#include "cli/train_options.hpp"

namespace sluice::cli {

/// Runs `sluice train`, from the options to the report; returns the exit code. `given`: the
/// subcommand as parsed, which knows what the user said and what are defaults.
///
/// Errors: usage_error before the first step; afterwards std::runtime_error, once the weights of
/// the last good step are saved and the files asked for are written as far as that still works.
int train(train_options options, const CLI::App& given);

} // namespace sluice::cli
