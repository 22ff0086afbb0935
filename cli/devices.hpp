#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "actors/pipeline.hpp"

namespace sluice::cli {

/// Checks `--device`: one name for all stages, or one for each, separated by commas. Stages run on
/// `cpu` or `cuda:N`; an emulated device stands alone, since it emulates all stages. Returns one
/// name for each stage. Errors: usage_error that says which device is wrong and what can be
/// written.
std::vector<std::string> check_devices(const std::string& devices, int stages);

/// Checks a worker's `--device`: `cpu`, or a list of GPUs. Returns their names; none for `cpu`.
/// Errors: usage_error as above.
std::vector<std::string> check_offered_devices(const std::string& devices);

/// One device for a measurement: `cpu` or `cuda:N`. Errors: usage_error as above.
std::shared_ptr<kernels::device> open_device(const std::string& device);

/// Has the pipeline run on these devices, with channels that suit them.
void place_stages(actors::pipeline_options& options, const std::vector<std::string>& devices);

/// Adds `sluice devices`: lists what there is.
void add_devices_command(CLI::App& app);

} // namespace sluice::cli
