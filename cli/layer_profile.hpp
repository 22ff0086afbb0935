#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "actors/plan/search.hpp"
#include "cli/train_options.hpp"

namespace sluice::cli {

/// The layers of a model as they were measured, and with which numbers.
struct layer_profile {
  std::optional<recipe> measured; ///< none: a profile written by another program
  std::vector<plan::layer_costs> layers;
};

/// Measures a recipe's layers on a device ("cpu", "cuda:0") with made-up text. Errors: usage_error.
layer_profile measure_profile(const recipe& what, const std::string& device, int threads);

/// What `sluice profile --json FILE` writes, and read_layer_profile() reads.
nlohmann::json to_json(const layer_profile& of);

/// Reads what `sluice profile --json FILE` wrote: an object with a list `layers`, each an object
/// with `forward`, `backward` and `weight` (seconds), `activation_bytes`, `output_bytes` and
/// `parameter_bytes`; a `name` may be there, and beside `layers` a `recipe`, the model's options.
///
/// Errors: usage_error with the path, the number of the layer and the key.
layer_profile read_layer_profile(const std::filesystem::path& path);

} // namespace sluice::cli
