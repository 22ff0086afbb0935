#pragma once

#include <CLI/App.hpp>

namespace sluice::cli {

/// `sluice stress`: random plans under random timing, until something is wrong.
void add_stress_command(CLI::App& app, int& exit_code);

} // namespace sluice::cli
