#pragma once

#include <filesystem>
#include <vector>

#include "actors/plan/search.hpp"

namespace sluice::cli {

/// Reads what `sluice profile --json FILE` wrote: an object with a list `layers`, each an object
/// with `forward`, `backward` and `weight` (seconds), `activation_bytes`, `output_bytes` and
/// `parameter_bytes`; a `name` may be there.
///
/// Errors: usage_error with the path, the number of the layer and the key.
std::vector<plan::layer_costs> read_layer_profile(const std::filesystem::path& path);

} // namespace sluice::cli
