#pragma once

#include <CLI/App.hpp>

namespace sluice::cli {

/// Adds `sluice train`. exit_code is set by the run; errors are exceptions.
void add_train_command(CLI::App& app, int& exit_code);

} // namespace sluice::cli
