#pragma once

#include "kernels/nn/layer.hpp"

namespace sluice::kernels::nn {

struct embedding_config {
  std::int64_t vocabulary = 256;
  std::int64_t length = 0; ///< the longest sequence
  std::int64_t width = 0;
  double dropout = 0;
};

/// output[b, t] = dropout(wte[ids[b, t]] + wpe[t]).
///
/// The module is named "embedding". Parameters: wte.weight [vocabulary, width], accumulator 0 of
/// two (see make_gpt_head), and wpe.weight [length, width].
/// Shapes: ids int32 [samples, T] -> [samples, T, width]. The ids have no gradient.
module_ptr make_token_embedding(const embedding_config& config, dtype type = dtype::float32);

} // namespace sluice::kernels::nn
