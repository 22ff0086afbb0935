#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::nn {

/// What one layer costs for one micro-batch. Times are the least of some rounds: what else the
/// machine does only ever makes them longer.
struct layer_cost {
  std::string name;
  std::chrono::nanoseconds forward{};
  std::chrono::nanoseconds backward_input{};
  std::chrono::nanoseconds backward_weight{};
  std::size_t activation_bytes = 0; ///< kept from forward to B
  std::size_t output_bytes = 0;     ///< what would cross a cut behind this layer
  std::size_t parameter_bytes = 0;  ///< values alone
};

/// The bytes of all tensors that an activation holds, each buffer once.
std::size_t saved_bytes(const activation& saved);

/// Runs the layers one after another on the inputs of the whole model (ids and targets) and
/// measures each. The layers must be initialised; their gradients are zero afterwards.
///
/// `inputs` reach the first layer; what it does not take passes through. `repeats` rounds are
/// timed after one that is not, and up to four times as many while they take under half a second.
/// Errors: std::invalid_argument for no layers or no repeats.
std::vector<layer_cost> profile_layers(stream& on, std::span<const module_ptr> layers,
                                       const tensor_list& inputs, int repeats = 5);

} // namespace sluice::kernels::nn
