#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/nn/ports.hpp"
#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::nn {

/// What a batch brings, by name, in the order of the inputs and targets of its parts.
struct model_values {
  std::vector<std::string> inputs = {"input"};
  std::vector<std::string> targets = {"target"}; ///< only layers of the last part can take them
};

/// A model whose layers find their tensors by name.
struct wired_model {
  std::vector<module_ptr> layers;  ///< as many as before; to be run one after another
  std::vector<std::size_t> losses; ///< how many each gives
  std::vector<std::pair<std::size_t, std::size_t>>
    leaps; ///< (part, part) of values that pass others
};

/// Whether any of the layers says what it takes and gives.
bool has_ports(std::span<const module_ptr> layers);

/// Puts each layer between what hands it its tensors and what passes the others on:
///
///     embed     gives h            h ------> [attn] -> h ------> [head] -> loss
///                                   \                           /
///                                    ----- passes through -----      (a skip connection)
///
/// Every value travels from the layer that gives it to the last one that takes it, through all
/// layers between, and is dropped there; its gradient comes back the same way and is the sum, in a
/// fixed order, of what its takers return. So the results do not depend on where the model is cut,
/// and a value lives no longer than the activation credit of the parts that it passes.
///
/// A name that is given again stands for the new value from then on. A layer without ports takes
/// what the layer before it gave first (and, as it may be one with a loss, the targets), and gives
/// one value of the same name; without ports, the last layer gives the loss.
///
/// part_ends: for each part that the model is cut into, the number of layers up to its end.
/// Errors: std::invalid_argument for a value that nobody gives or nobody takes, types or shapes
/// that cannot fit, a target that is wanted before the last part, a model without a loss.
wired_model wire(std::vector<module_ptr> layers, const model_values& values,
                 std::span<const std::size_t> part_ends);

} // namespace sluice::kernels::nn
