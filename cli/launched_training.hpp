#pragma once

#include <CLI/App.hpp>

#include "cli/train_options.hpp"

namespace sluice::cli {

/// `sluice train --from-environment`: this process's part of a run that somebody else's launcher
/// has started (see cli/launcher.hpp). Rank 0 trains, with stages of its own; the others are its
/// workers until it is done.
/// Errors: usage_error where no launcher has set its variables, or certificates are missing;
/// otherwise as train().
int train_launched(train_options options, const CLI::App& given);

} // namespace sluice::cli
