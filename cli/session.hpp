#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "actors/pipeline.hpp"
#include "cli/checkpoint.hpp"
#include "cli/hosting.hpp"
#include "cli/train_options.hpp"

namespace sluice::cli {

/// The plan that the options ask for. Errors: usage_error.
plan::plan plan_of(const recipe& what, const execution& how);

/// Starts the pipeline of a recipe: the cut into stages (by hand or by what the layers cost),
/// devices and limits; its stages in this process, or where `at` says.
/// Errors: usage_error for options that do not go together; pipeline_error for a worker that is
/// lost just then.
actors::pipeline start_pipeline(const recipe& what, const execution& how, plan::plan plan,
                                const hosting::muster& at = {});

/// What to do when a step did not fit into --memory, to be put after the reason; empty for any
/// other reason.
std::string memory_advice(std::string_view reason);

/// The newest sound checkpoint of a folder, or the checkpoint that a file is.
/// Errors: usage_error when there is none.
checkpoint find_checkpoint(const std::filesystem::path& place);

} // namespace sluice::cli
