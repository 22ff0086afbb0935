#pragma once

#include <CLI/App.hpp>

namespace sluice::cli {

/// Adds `sluice launch`: `sluice train` over worker processes that it starts and ends.
void add_launch_command(CLI::App& app, int& exit_code);

} // namespace sluice::cli
