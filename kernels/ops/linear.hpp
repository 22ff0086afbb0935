#pragma once

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// output = input weight^T + bias.
///
/// Shapes: input [..., in], weight [out, in] (as PyTorch stores it), bias [out] or absent; the
/// result is [..., out].
/// Errors: std::invalid_argument for shapes or types that do not fit.
tensor linear(stream& on, const tensor& input, const tensor& weight, const tensor& bias = {});

/// The gradient of the input: output_gradient weight.
tensor linear_input_gradient(stream& on, const tensor& output_gradient, const tensor& weight);

/// In the type that gradients are summed in, adds the weight's, output_gradient^T input, and the
/// bias's, the sum of the rows of output_gradient, where there is a bias.
void linear_weight_gradient(stream& on, const tensor& output_gradient, const tensor& input,
                            tensor& weight_gradient, tensor& bias_gradient);
void linear_weight_gradient(stream& on, const tensor& output_gradient, const tensor& input,
                            tensor& weight_gradient);

// -- beside a GELU ---------------------------------------------------------------------------
// In one step where a device's library has that (cuBLASLt's epilogues). Everywhere else, and for
// shapes that it does not take, these are the two calls that they stand for.

struct linear_gelu_result {
  tensor output; ///< gelu(inner)
  tensor inner;  ///< linear(input, weight, bias)
};
linear_gelu_result linear_gelu(stream& on, const tensor& input, const tensor& weight,
                               const tensor& bias);

/// The gradient of `inner`, where output = linear(gelu(inner), weight).
tensor linear_gelu_input_gradient(stream& on, const tensor& output_gradient, const tensor& weight,
                                  const tensor& inner);

} // namespace sluice::kernels::ops
