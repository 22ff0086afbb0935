#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.hpp"

namespace sluice::actors {

/// One micro-batch as the caller gives it.
struct batch_part {
  kernels::tensor_list inputs = {};
  kernels::tensor_list targets = {}; ///< empty for a prediction
  std::int64_t samples = 0;          ///< rows; micro-batches may differ
  std::int64_t valid_targets = 0;    ///< those that are not ignored: what the loss is divided by
};

/// The whole batch of a step: as many parts as the plan has micro-batches.
/// Its tensors are copied into the pipeline; the caller may reuse them after the step.
using batch = std::vector<batch_part>;

} // namespace sluice::actors
