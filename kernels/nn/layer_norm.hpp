#pragma once

#include "kernels/nn/layer.hpp"

namespace sluice::kernels::nn {

/// Layer norm over the last dimension. Parameters: NAME.weight and NAME.bias [width].
module_ptr make_layer_norm(std::string name, std::int64_t width, dtype type = dtype::float32);

/// Adds what ops::layer_norm_backward gave as `affine` [2, C] to the two gradients: the W of every
/// layer with a norm in it.
void add_affine_gradients(stream& on, const tensor& affine, tensor& weight_gradient,
                          tensor& bias_gradient);

} // namespace sluice::kernels::nn
