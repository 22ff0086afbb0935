#pragma once

#include <CLI/App.hpp>

namespace sluice::cli {

/// Adds `sluice plan`: makes a plan, checks it, simulates it, draws it, compares schedules, and
/// searches for the best. Errors are exceptions; a plan that cannot finish is no error but sets a
/// non-zero exit code.
void add_plan_command(CLI::App& app, int& exit_code);

} // namespace sluice::cli
