#pragma once

#include <cstdint>

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

struct adamw_settings {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;   ///< 0 for parameters that do not decay
  double gradient_scale = 1; ///< clipping: every gradient is multiplied by it first
  std::uint64_t step = 1;    ///< counts from 1, for the bias correction
};

/// One update: the decay first, then the step along the corrected moments.
///
/// Shapes: all the same. Errors: std::invalid_argument for others, or integers.
/// Source: Loshchilov and Hutter, Decoupled weight decay regularization (2019); the order of
/// operations is PyTorch's.
struct adamw_state {
  tensor& mean;    ///< of the gradients
  tensor& squares; ///< mean of the squared gradients
};
void adamw(stream& on, tensor& value, const tensor& gradient, adamw_state state,
           const adamw_settings& settings);

} // namespace sluice::kernels::ops
