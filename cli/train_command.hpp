#pragma once

#include <CLI/App.hpp>

#include "cli/train_options.hpp"

namespace sluice::cli {

/// Adds all options of a training run to a subcommand; those of workers only where it takes them.
void add_train_options(CLI::App& to, train_options& options, bool with_workers);

/// Adds `sluice train`. exit_code is set by the run; errors are exceptions.
void add_train_command(CLI::App& app, int& exit_code);

} // namespace sluice::cli
