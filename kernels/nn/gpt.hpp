#pragma once

#include <cstdint>
#include <vector>

#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::nn {

struct gpt_config {
  std::int64_t vocabulary = 256; ///< bytes
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t length = 128; ///< the longest sequence
  double dropout = 0;
  bool tied = true;              ///< the head's matrix is the embedding's
};

/// GPT-2 as 2 layers + 2 modules, to be cut between any two of them:
///
///   embedding | h.0.attn | h.0.mlp | h.1.attn | ... | head
///
/// Shapes: see token_embedding.hpp and head.hpp; [samples, T, width] in between.
/// Errors: std::invalid_argument for a width that the heads do not divide, sizes below 1, or a
/// dropout probability outside [0, 1).
/// Source: Radford et al., Language models are unsupervised multitask learners (2019); initial
/// values as there: normal(0, 0.02), projections into the residual smaller by sqrt(2 layers).
std::vector<module_ptr> make_gpt(const gpt_config& config, dtype type = dtype::float32);

} // namespace sluice::kernels::nn
