#pragma once

#include "kernels/nn/attention_block.hpp"

namespace sluice::kernels::nn {

/// output = input + dropout(projection(gelu(expansion(layer norm(input))))), four times as wide
/// inside.
///
/// The module is named PREFIX.mlp. Parameters: PREFIX.ln_2.weight and .bias,
/// PREFIX.mlp.c_fc.weight [4 width, width] and .bias, PREFIX.mlp.c_proj.weight [width, 4 width]
/// and .bias.
/// Shapes: [samples, ..., width], kept.
module_ptr make_mlp_block(const std::string& prefix, const block_config& config,
                          dtype type = dtype::float32);

} // namespace sluice::kernels::nn
