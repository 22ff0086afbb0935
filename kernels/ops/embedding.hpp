#pragma once

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// output[b, t] = tokens[ids[b, t]] + positions[t].
///
/// Shapes: ids int32 [samples, T], tokens [V, C], positions [at least T, C]; the result is
/// [samples, T, C].
/// Errors: std::out_of_range for an id outside [0, V) or a sequence longer than the positions.
tensor embedding(stream& on, const tensor& ids, const tensor& tokens, const tensor& positions);

/// Adds to the gradients of both tables, sample by sample and position by position.
void embedding_backward(stream& on, const tensor& output_gradient, const tensor& ids,
                        tensor& tokens_gradient, tensor& positions_gradient);

} // namespace sluice::kernels::ops
