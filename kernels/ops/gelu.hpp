#pragma once

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// The Gaussian error linear unit in its tanh approximation, as GPT-2 has it:
/// y = x / 2 (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3); here as y = x sigmoid(2 u).
///
/// Shapes: any; the result has the input's.
/// Errors: std::invalid_argument for integers.
/// Source: Hendrycks and Gimpel, Gaussian error linear units (2016).
tensor gelu(stream& on, const tensor& input);

/// The gradient of the input, from that of the output and the input.
tensor gelu_backward(stream& on, const tensor& output_gradient, const tensor& input);

} // namespace sluice::kernels::ops
