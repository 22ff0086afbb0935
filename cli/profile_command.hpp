#pragma once

#include <CLI/App.hpp>

namespace sluice::cli {

/// Adds `sluice profile`: times a model's layers on the present device, for `sluice plan`.
void add_profile_command(CLI::App& app, int& exit_code);

} // namespace sluice::cli
