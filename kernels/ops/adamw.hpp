#pragma once

#include <cstdint>
#include <span>

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

struct adamw_settings {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;   ///< of the operands that decay
  double gradient_scale = 1; ///< clipping: every gradient is multiplied by it first
  std::uint64_t step = 1;    ///< counts from 1, for the bias correction
};

/// A parameter and what the optimizer remembers of it.
struct adamw_operand {
  tensor& value;
  const tensor& gradient;
  tensor& mean;    ///< of the gradients
  tensor& squares; ///< mean of the squared gradients
  bool decays = true;
};

/// One update of each: the decay first, then the step along the corrected moments.
///
/// Shapes: those of one operand all the same. Cost: on a GPU a launch for 70 operands, whatever
/// their sizes. Errors: std::invalid_argument for others, or integers; on a GPU for all but
/// float32. Source: Loshchilov and Hutter, Decoupled weight decay regularization (2019); the order
/// of operations is PyTorch's.
void adamw(stream& on, std::span<const adamw_operand> all, const adamw_settings& settings);

} // namespace sluice::kernels::ops
