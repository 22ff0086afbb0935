#pragma once

#include <string>

#include <CLI/App.hpp>

#include "actors/plan/search.hpp"
#include "cli/train_options.hpp"

namespace sluice::cli {

/// The options by which `sluice train` runs what a search found, beside those that people use:
/// warm-up levels and recomputation stage by stage.
void add_proposal_options(CLI::App& to, execution& how);

/// Puts the options' warm-up levels into a plan. Errors: usage_error for another number of them
/// than the plan has stages, or a stage that it does not have.
void apply_proposal_options(plan::plan& to, const execution& how);

/// The `sluice train` that runs a proposal, for a model that was measured with `measured`.
std::string train_command_line(const plan::proposal& of, const recipe& measured);

} // namespace sluice::cli
