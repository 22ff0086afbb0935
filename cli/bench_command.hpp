#pragma once

#include <CLI/App.hpp>

namespace sluice::cli {

/// Adds `sluice bench`: the project's measurements of itself, by name.
void add_bench_command(CLI::App& app);

} // namespace sluice::cli
