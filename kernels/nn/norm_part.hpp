#pragma once

#include "kernels/ops/add.hpp"
#include "kernels/stream.hpp"

namespace sluice::kernels::nn {

/// Adds what ops::layer_norm_backward gave as `affine` [2, C] to the two gradients.
inline void add_affine_gradients(stream& on, const tensor& affine, tensor& weight_gradient,
                                 tensor& bias_gradient) {
  const auto row = weight_gradient.shape();
  ops::add_into(on, weight_gradient, affine.slice(0, 1).reshaped(row));
  ops::add_into(on, bias_gradient, affine.slice(1, 1).reshaped(row));
}

} // namespace sluice::kernels::nn
