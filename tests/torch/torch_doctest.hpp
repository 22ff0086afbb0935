#pragma once

#include "actors/pipeline.hpp"
#include "kernels/torch/torch_module.hpp"

// torch has macros of these names too.
#undef CHECK
#undef CHECK_EQ
#undef CHECK_NE
#undef CHECK_LT
#undef CHECK_LE
#undef CHECK_GT
#undef CHECK_GE
#include <doctest/doctest.h>

// Torch and doctest together, and what the tests' modules have in common.

namespace sluice::tests {

inline constexpr std::int64_t width = 16;
inline constexpr std::int64_t classes = 5;

inline at::Tensor sum_loss(const at::Tensor& logits, const at::Tensor& targets) {
  return torch::nn::functional::cross_entropy(
    logits.reshape({-1, classes}), targets.reshape({-1}),
    torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
}

} // namespace sluice::tests
