#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/buffer_pool.hpp"
#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::nn {

/// What a module takes from its device in a training step, as a pool counts it: whole buffers,
/// rounded up as they are.
struct footprint {
  std::size_t state_bytes = 0;          ///< values and gradients
  std::size_t beside_bytes = 0;         ///< the optimizer's state, and masters
  buffer_pool::task_demand demand = {}; ///< of one micro-batch: F, B and W together
};

/// Whether W is a task of its own, which needs something kept from B.
enum class backward_kind { whole, split };

/// What is measured with.
struct footprint_request {
  const tensor_list& inputs; ///< of the whole model: ids and targets
  backward_kind kind = backward_kind::whole;
  std::size_t slots = 0; ///< tensors that the optimizer keeps for each parameter
};

/// Initialises the modules and runs one micro-batch through them and back. What the first module
/// does not take of the inputs passes through.
///
/// Errors: std::invalid_argument for no modules.
std::vector<footprint> measure_footprints(stream& on, std::span<stage_module* const> modules,
                                          const footprint_request& with);

} // namespace sluice::kernels::nn
