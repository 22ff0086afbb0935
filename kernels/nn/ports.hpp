#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"

namespace sluice::kernels::nn {

/// One named tensor of a module's interface.
struct port {
  static constexpr std::int64_t any = -1; ///< an extent that may change between micro-batches

  std::string name = {};
  std::optional<dtype> type = {};                      ///< none: any
  std::optional<std::vector<std::int64_t>> shape = {}; ///< none: any
  bool optional = false;                               ///< may be absent
  bool loss = false; ///< of `gives` only: a float64 scalar, summed over the valid targets
};

/// "mask: I32 [any, 7]"
std::string to_string(const port& of);

/// What a module takes and gives, by name, so that its tensors find each other whatever lies
/// between: see wire.hpp. The lists of forward and backward_input have this order.
///
/// Losses come first among what it gives. They are there for train and evaluate only, and have no
/// gradient: the module applies micro_batch::loss_scale itself.
///
/// Empty: one tensor in and one out (of the last layer, the loss), whatever they are called.
struct module_ports {
  std::vector<port> takes = {};
  std::vector<port> gives = {};
};

/// Whether a tensor is what a port says.
/// Errors: std::invalid_argument: "attn: the input 'mask' is I32 [3], declared [any, 7]".
void check_port(const std::string& module, const char* direction, const port& of,
                const tensor& given);

/// Whether what one module gives can be what another takes, as far as both say.
bool fits(const port& given, const port& taken);

} // namespace sluice::kernels::nn
