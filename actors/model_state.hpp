#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"

namespace sluice::actors {

/// What a forward-only run gives: the outputs of the last module.
struct prediction {
  std::vector<kernels::tensor_list> outputs; ///< by micro-batch
};

/// A parameter and its optimizer state.
struct named_state {
  std::string name;
  kernels::tensor_list tensors; ///< the value, then one for each optimizer slot
};

/// Everything that a later run needs to continue this one bit for bit.
struct model_state {
  std::uint64_t step = 0;
  std::vector<std::string> optimizer_slots;
  std::vector<named_state> parameters; ///< in the order of their names
};

} // namespace sluice::actors
