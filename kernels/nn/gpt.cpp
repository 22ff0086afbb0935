#include "kernels/nn/gpt.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "kernels/nn/attention_block.hpp"
#include "kernels/nn/head.hpp"
#include "kernels/nn/mlp_block.hpp"
#include "kernels/nn/token_embedding.hpp"

namespace sluice::kernels::nn {

namespace {

void check(const gpt_config& config) {
  const struct {
    const char* name;
    std::int64_t value;
  } sizes[] = {{"vocabulary", config.vocabulary},
               {"layers", config.layers},
               {"width", config.width},
               {"heads", config.heads},
               {"length", config.length}};
  for (const auto& size : sizes)
    if (size.value < 1)
      throw std::invalid_argument(
        fmt::format("gpt: {} = {} must be at least 1", size.name, size.value));
  if (config.width % config.heads != 0)
    throw std::invalid_argument(
      fmt::format("gpt: width {} is not divisible by {} heads", config.width, config.heads));
  if (!(config.dropout >= 0 && config.dropout < 1))
    throw std::invalid_argument(fmt::format("gpt: dropout {} is not in [0, 1)", config.dropout));
}

} // namespace

std::vector<module_ptr> make_gpt(const gpt_config& config, dtype type) {
  check(config);
  const block_config block{config.width, config.heads, config.dropout,
                           0.02 / std::sqrt(2.0 * static_cast<double>(config.layers))};
  std::vector<module_ptr> model;
  model.push_back(
    make_token_embedding({config.vocabulary, config.length, config.width, config.dropout}, type));
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const auto prefix = "h." + std::to_string(i);
    model.push_back(make_attention_block(prefix, block, type));
    model.push_back(make_mlp_block(prefix, block, type));
  }
  model.push_back(make_gpt_head(config.vocabulary, config.width, type, config.tied));
  return model;
}

} // namespace sluice::kernels::nn
