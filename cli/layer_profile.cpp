#include "cli/layer_profile.hpp"

#include <cmath>
#include <fstream>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/devices.hpp"
#include "cli/failure.hpp"
#include "cli/model.hpp"

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

recipe read_recipe(const nlohmann::json& saved, const std::filesystem::path& path) {
  recipe what;
  CLI::App nothing_given;
  add_recipe_options(nothing_given, what);
  try {
    adopt(what, saved, nothing_given);
  } catch (const nlohmann::json::exception& problem) {
    throw usage_error(fmt::format("{}: 'recipe' is none: {}", path.string(), problem.what()));
  }
  return what;
}

double in_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

} // namespace

layer_profile measure_profile(const recipe& what, const std::string& device, int threads) {
  layer_profile result{.measured = what, .layers = {}};
  for (const auto& cost : profile_model(what, open_device(device), threads))
    result.layers.push_back({.name = cost.name,
                             .forward = in_seconds(cost.forward),
                             .backward = in_seconds(cost.backward_input),
                             .weight = in_seconds(cost.backward_weight),
                             .activation_bytes = static_cast<double>(cost.activation_bytes),
                             .output_bytes = static_cast<double>(cost.output_bytes),
                             .parameter_bytes = static_cast<double>(cost.parameter_bytes)});
  return result;
}

nlohmann::json to_json(const layer_profile& of) {
  auto layers = nlohmann::json::array();
  for (const auto& layer : of.layers)
    layers.push_back({{"name", layer.name},
                      {"forward", layer.forward},
                      {"backward", layer.backward},
                      {"weight", layer.weight},
                      {"activation_bytes", layer.activation_bytes},
                      {"output_bytes", layer.output_bytes},
                      {"parameter_bytes", layer.parameter_bytes}});
  nlohmann::json all{{"layers", layers}};
  if (of.measured)
    all["recipe"] = to_json(*of.measured);
  return all;
}

layer_profile read_layer_profile(const std::filesystem::path& path) {
  std::ifstream file{path};
  if (!file)
    throw usage_error(fmt::format("cannot read the profile {}", path.string()));
  const auto all = nlohmann::json::parse(file, nullptr, false);
  if (all.is_discarded() || !all.is_object() || !all.contains("layers") || !all["layers"].is_array()
      || all["layers"].empty())
    throw usage_error(fmt::format("{} is no profile: it needs a list 'layers' as `sluice profile "
                                  "--json` writes it",
                                  path.string()));
  layer_profile result;
  auto& layers = result.layers;
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
  if (all.contains("recipe"))
    result.measured = read_recipe(all["recipe"], path);
  return result;
}

} // namespace sluice::cli
