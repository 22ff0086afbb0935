#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.hpp"
#include "net/transfer.hpp"

namespace sluice::net {

/// What one tensor of a transfer is, so that the receiver can make room for it.
struct tensor_header {
  bool present = false; ///< an absent tensor is handed over as absent
  kernels::dtype type = kernels::dtype::float32;
  std::vector<std::int64_t> extents = {};

  kernels::shape shape() const { return kernels::shape(extents); }
};

/// A transfer that its sender has ready, on a network whose transfers need one order.
struct offer {
  transfer what = {};
  std::vector<tensor_header> tensors = {};
};

/// The offer of these tensors.
inline offer offer_of(const transfer& what, const kernels::tensor_list& tensors) {
  offer made{what, {}};
  for (const auto& each : tensors) {
    auto& header = made.tensors.emplace_back();
    header.present = bool(each);
    if (!each)
      continue;
    header.type = each.type();
    const auto extents = each.shape().extents();
    header.extents.assign(extents.begin(), extents.end());
  }
  return made;
}

} // namespace sluice::net
