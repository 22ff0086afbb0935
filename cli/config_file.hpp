#pragma once

#include <CLI/App.hpp>

namespace sluice::cli {

/// Adds --config FILE: a TOML file whose keys are the long options of the subcommand that runs.
/// The command line goes before the file; a key that is no option is an error. Call it last, when
/// all subcommands are there.
void add_config_file(CLI::App& app);

} // namespace sluice::cli
