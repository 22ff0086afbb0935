#pragma once

#include <CLI/App.hpp>

namespace sluice::cli {

/// Adds `sluice generate`. Errors are exceptions.
void add_generate_command(CLI::App& app, int& exit_code);

} // namespace sluice::cli
