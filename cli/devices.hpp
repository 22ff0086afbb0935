#pragma once

#include <string>

#include <CLI/App.hpp>

namespace sluice::cli {

/// Checks `--device`: one name for all stages, or one for each, separated by commas. Stages run on
/// `cpu`; an emulated device stands alone, since it emulates all stages.
/// Errors: usage_error that says which device is wrong and what can be written.
void check_devices(const std::string& devices, int stages);

/// Adds `sluice devices`: lists what there is.
void add_devices_command(CLI::App& app);

} // namespace sluice::cli
