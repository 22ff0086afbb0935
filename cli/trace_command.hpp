#pragma once

#include <CLI/App.hpp>

namespace sluice::cli {

/// Adds `sluice trace FILE`: the executed schedule as text, from what `train --trace` wrote.
void add_trace_command(CLI::App& app, int& exit_code);

} // namespace sluice::cli
