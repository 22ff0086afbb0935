#pragma once

#include <CLI/App.hpp>

namespace sluice::cli {

/// Adds --config FILE: a TOML file whose keys are the long options of the subcommand that runs, at
/// the top level or under its [section]. The command line goes before the file. Call it last, when
/// all subcommands are there.
///
/// Errors: usage_error with file, line and what is wrong, for a file that cannot be read or is not
/// TOML, for a key that is no option and for a value that the option refuses.
void add_config_file(CLI::App& app);

} // namespace sluice::cli
