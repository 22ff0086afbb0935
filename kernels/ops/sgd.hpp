#pragma once

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

struct sgd_settings {
  double learning_rate = 0.1;
  double momentum = 0;
  double weight_decay = 0;   ///< added to the gradient; 0 for parameters that do not decay
  double gradient_scale = 1; ///< clipping: every gradient is multiplied by it first
};

/// g = scale gradient + decay value; velocity = momentum velocity + g; value -= rate velocity.
/// Without momentum there is no velocity: it may be absent.
///
/// Shapes: all the same. Errors: std::invalid_argument for others, or integers.
/// Source: the order of operations is PyTorch's.
void sgd(stream& on, tensor& value, const tensor& gradient, tensor& velocity,
         const sgd_settings& settings);

} // namespace sluice::kernels::ops
