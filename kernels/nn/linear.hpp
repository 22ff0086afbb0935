#pragma once

#include "kernels/nn/layer.hpp"

namespace sluice::kernels::nn {

/// Whether a layer's input has a gradient: data has none, and computing one is wasted.
enum class input_gradient : std::uint8_t { wanted, none };

struct linear_config {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  double deviation = 0.02; ///< of the weight's initial values
  input_gradient gradient = input_gradient::wanted;
};

/// output = input weight^T + bias. Parameters: NAME.weight [outputs, inputs], NAME.bias [outputs].
/// Shapes: [..., inputs] -> [..., outputs]. Without an input gradient the input may be of any
/// floating-point type; it is cast.
module_ptr make_linear(std::string name, const linear_config& config, dtype type = dtype::float32);

} // namespace sluice::kernels::nn
