#include "kernels/nn/mlp.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "kernels/nn/head.hpp"
#include "kernels/nn/linear.hpp"
#include "kernels/nn/pointwise.hpp"
#include "kernels/nn/sequential.hpp"

namespace sluice::kernels::nn {

namespace {

void check(const mlp_config& config) {
  const struct {
    const char* name;
    std::int64_t value;
  } sizes[] = {{"features", config.features},
               {"width", config.width},
               {"layers", config.layers},
               {"classes", config.classes}};
  for (const auto& size : sizes)
    if (size.value < 1)
      throw std::invalid_argument(
        fmt::format("mlp: {} = {} must be at least 1", size.name, size.value));
  if (!(config.dropout >= 0 && config.dropout < 1))
    throw std::invalid_argument(fmt::format("mlp: dropout {} is not in [0, 1)", config.dropout));
}

} // namespace

std::vector<module_ptr> make_mlp(const mlp_config& config, dtype type) {
  check(config);
  std::vector<module_ptr> model;
  auto inputs = config.features;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const auto name = "layers." + std::to_string(i);
    // So that the variance of what passes stays about the same (He et al., 2015).
    const linear_config wanted{inputs, config.width, std::sqrt(2.0 / static_cast<double>(inputs)),
                               i == 0 ? input_gradient::none : input_gradient::wanted};
    std::vector<module_ptr> parts;
    parts.push_back(make_linear(name, wanted, type));
    parts.push_back(make_gelu(name + ".gelu", type));
    if (config.dropout > 0)
      parts.push_back(make_dropout(name + ".dropout", config.dropout, type));
    model.push_back(std::make_unique<sequential>(name, std::move(parts)));
    inputs = config.width;
  }
  model.push_back(make_classifier_head(config.classes, config.width, type));
  return model;
}

} // namespace sluice::kernels::nn
