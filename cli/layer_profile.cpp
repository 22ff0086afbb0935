#include "cli/layer_profile.hpp"

#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/failure.hpp"

namespace sluice::cli {

namespace {

double read_key(const nlohmann::json& layer, const char* key, std::size_t number,
                const std::filesystem::path& path) {
  const auto found = layer.find(key);
  if (found == layer.end() || !found->is_number() || !(found->get<double>() >= 0)
      || std::isinf(found->get<double>()))
    throw usage_error(fmt::format("{}: layer {} needs a number '{}' that is not negative",
                                  path.string(), number, key));
  return found->get<double>();
}

} // namespace

std::vector<plan::layer_costs> read_layer_profile(const std::filesystem::path& path) {
  std::ifstream file{path};
  if (!file)
    throw usage_error(fmt::format("cannot read the profile {}", path.string()));
  const auto all = nlohmann::json::parse(file, nullptr, false);
  if (all.is_discarded() || !all.is_object() || !all.contains("layers") || !all["layers"].is_array()
      || all["layers"].empty())
    throw usage_error(fmt::format("{} is no profile: it needs a list 'layers' as `sluice profile "
                                  "--json` writes it",
                                  path.string()));
  std::vector<plan::layer_costs> layers;
  for (const auto& each : all["layers"]) {
    const auto number = layers.size();
    if (!each.is_object())
      throw usage_error(fmt::format("{}: layer {} is no object", path.string(), number));
    const auto read = [&](const char* key) { return read_key(each, key, number, path); };
    layers.push_back({.name = each.value("name", fmt::format("layer {}", number)),
                      .forward = read("forward"),
                      .backward = read("backward"),
                      .weight = read("weight"),
                      .activation_bytes = read("activation_bytes"),
                      .output_bytes = read("output_bytes"),
                      .parameter_bytes = read("parameter_bytes")});
  }
  return layers;
}

} // namespace sluice::cli
