#pragma once

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// y = (x - mean) / sqrt(variance + 1e-5) * weight + bias, over each row.
///
/// Shapes: input and output [..., C], weight and bias [C], statistics [2, rows]: the means, then
/// the reciprocals of the deviations, which the backward needs.
/// Errors: std::invalid_argument for shapes or types that do not fit.
/// Source: Ba, Kiros and Hinton, Layer normalization (2016).
struct layer_norm_result {
  tensor output;
  tensor statistics;
};
layer_norm_result layer_norm(stream& on, const tensor& input, const tensor& weight,
                             const tensor& bias);

/// The same output once more from kept statistics, so that it need not be kept.
tensor layer_norm_again(stream& on, const tensor& input, const tensor& statistics,
                        const tensor& weight, const tensor& bias);

/// Shapes: input [..., C]; affine [2, C]: the weight's gradient, then the bias's, in the type that
/// gradients are summed in.
struct layer_norm_gradients {
  tensor input;
  tensor affine;
};
layer_norm_gradients layer_norm_backward(stream& on, const tensor& output_gradient,
                                         const tensor& input, const tensor& statistics,
                                         const tensor& weight);

} // namespace sluice::kernels::ops
