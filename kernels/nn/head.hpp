#pragma once

#include "kernels/nn/layer.hpp"

namespace sluice::kernels::nn {

/// The last layer of a GPT: layer norm, the embedding's weight as output matrix, cross-entropy.
///
/// The module is named "head". Parameters: ln_f.weight and .bias [width], and wte.weight
/// [vocabulary, width], accumulator 1 of two: its value is the embedding's (see tie.hpp).
/// Not tied, the matrix is a parameter of its own, lm_head.weight.
/// Shapes: train and evaluate: hidden [samples, T, width] and targets int32 [samples, T] -> the
/// sum of the losses, a float64 scalar; predict: hidden -> logits [samples, T, vocabulary],
/// in float32 also where the layers are bfloat16.
/// Only `hidden` has a gradient.
module_ptr make_gpt_head(std::int64_t vocabulary, std::int64_t width, dtype type = dtype::float32,
                         bool tied = true);

/// The last layer of a classifier: linear and cross-entropy.
///
/// The module is named "head". Parameters: head.weight [classes, width], head.bias [classes].
/// Shapes: train and evaluate: features [samples, width] and labels int32 [samples] -> the sum of
/// the losses, a float64 scalar; predict: features -> logits [samples, classes], in
/// float32 also where the layers are bfloat16.
module_ptr make_classifier_head(std::int64_t classes, std::int64_t width,
                                dtype type = dtype::float32);

} // namespace sluice::kernels::nn
