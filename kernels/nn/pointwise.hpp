#pragma once

#include "kernels/nn/layer.hpp"

namespace sluice::kernels::nn {

/// GELU. No parameters. Shapes: any, kept.
module_ptr make_gelu(std::string name, dtype type = dtype::float32);

/// Dropout while training. No parameters. Shapes: [samples, ...], kept.
/// Errors: std::invalid_argument for a probability outside [0, 1).
module_ptr make_dropout(std::string name, double probability, dtype type = dtype::float32);

} // namespace sluice::kernels::nn
