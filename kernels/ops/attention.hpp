#pragma once

#include <cstdint>

#include "kernels/ops/dropout.hpp"
#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// Causal self-attention of several heads: output_i = sum over j <= i of
/// dropout(softmax_j(q_i . k_j / sqrt(D))) v_j, with D = C / heads.
///
/// Shapes: packed [samples, T, 3 C]: queries, keys and values of all heads side by side; output
/// [samples, T, C]; log_sums [samples, heads, T]: the logarithms of the softmax's denominators.
/// With these the backward computes the probabilities again, a block of rows at a time, so that
/// nothing of size T x T is kept (nor made, beyond row_block x T).
/// Errors: std::invalid_argument for a width that the heads do not divide, or integers.
/// Source: the memory scheme of Dao et al., FlashAttention (2022).
struct attention_result {
  tensor output;
  tensor log_sums;
};
attention_result causal_attention(stream& on, const tensor& packed, std::int64_t heads,
                                  const dropout_mask& mask);

/// The gradient of `packed`.
tensor causal_attention_backward(stream& on, const tensor& output_gradient, const tensor& packed,
                                 const tensor& log_sums, const dropout_mask& mask);

} // namespace sluice::kernels::ops
