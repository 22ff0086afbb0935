#pragma once

#include <cstdint>

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// A target of this value has no loss and no gradient.
inline constexpr std::int32_t ignored_target = -1;

/// How many targets are not ignored.
std::int64_t valid_targets(const tensor& targets);

/// The sum of -log softmax(logits)[target] over the rows whose target is not ignored, in row
/// order. Overwrites the logits by their softmax, which is what the backward needs.
///
/// Shapes: logits [..., V], targets int32 with one element per row; the result is a float64
/// scalar, 0 where all targets are ignored.
/// Errors: std::out_of_range for a target outside [0, V) that is not ignored;
/// std::invalid_argument for shapes or types that do not fit.
tensor cross_entropy(stream& on, tensor& logits, const tensor& targets);

/// Turns those probabilities into the gradient of the logits, in place:
/// (probability - [column == target]) * loss_scale, and 0 in rows whose target is ignored.
void cross_entropy_backward(stream& on, tensor& probabilities, const tensor& targets,
                            double loss_scale);

} // namespace sluice::kernels::ops
