#pragma once

#include <cstdint>
#include <vector>

#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::nn {

struct mlp_config {
  std::int64_t features = 64;
  std::int64_t width = 64;
  std::int64_t layers = 4; ///< hidden ones, each linear, GELU and dropout
  std::int64_t classes = 10;
  double dropout = 0;
};

/// A classifier as layers + 1 modules, to be cut between any two of them:
///
///   layers.0 | layers.1 | ... | head
///
/// Parameters: layers.I.weight, layers.I.bias, head.weight, head.bias.
/// Shapes: features [samples, features] and labels int32 [samples] (see head.hpp);
/// [samples, width] in between. The features have no gradient.
/// Errors: std::invalid_argument for sizes below 1 or a dropout probability outside [0, 1).
std::vector<module_ptr> make_mlp(const mlp_config& config, dtype type = dtype::float32);

} // namespace sluice::kernels::nn
