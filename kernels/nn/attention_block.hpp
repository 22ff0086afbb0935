#pragma once

#include "kernels/nn/layer.hpp"

namespace sluice::kernels::nn {

/// Half a transformer block, either one.
struct block_config {
  std::int64_t width = 0;
  std::int64_t heads = 1; ///< of the attention
  double dropout = 0;
  double projection_deviation = 0.02; ///< initial values of the projection into the residual
};

/// output = input + dropout(projection(attention(layer norm(input)))), causal, several heads.
///
/// The module is named PREFIX.attn. Parameters: PREFIX.ln_1.weight and .bias,
/// PREFIX.attn.c_attn.weight [3 width, width] and .bias, PREFIX.attn.c_proj.weight [width, width]
/// and .bias.
/// Shapes: [samples, T, width], kept.
/// Errors: std::invalid_argument for a width that the heads do not divide.
module_ptr make_attention_block(const std::string& prefix, const block_config& config,
                                dtype type = dtype::float32);

} // namespace sluice::kernels::nn
