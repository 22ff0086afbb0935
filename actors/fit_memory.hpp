#pragma once

#include "actors/batch.hpp"
#include "actors/pipeline.hpp"

namespace sluice::actors {

/// Raises the credits of a pipeline's plan to what its stages' memory (`memory_bytes`) holds beside
/// weights, gradients, the optimizer's state and scratch: extra activations absorb jitter. Results
/// stay the same, bit for bit, since the lanes are fixed. One micro-batch is run through the model,
/// chunk by chunk, to see what it holds.
///
/// Errors: std::invalid_argument for a pipeline without a limit, and where the plan's own credits
/// do not fit, with rank and bytes. Cost: the time of one micro-batch; the memory of the whole
/// model.
void fit_credits_to_memory(pipeline_options& options, const batch_part& sample);

} // namespace sluice::actors
