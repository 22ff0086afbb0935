#pragma once

#include <CLI/App.hpp>

namespace sluice::cli {

/// Adds `sluice status`: which workers are there, and who has them.
void add_status_command(CLI::App& app, int& exit_code);

} // namespace sluice::cli
