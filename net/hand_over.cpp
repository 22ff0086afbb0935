#include "net/hand_over.hpp"

#include <algorithm>

namespace sluice::net {

kernels::tensor_list hand_over(kernels::tensor_list tensors, kernels::buffer_pool& pool) {
  for (auto& each : tensors) {
    if (!each)
      continue;
    if (each.unique()) {
      each.charge_to(pool, kernels::buffer_use::transfer);
    } else {
      auto copy = pool.allocate(each.type(), each.shape());
      std::ranges::copy(std::as_const(each).bytes_span(), copy.bytes_span().begin());
      copy.set_use(kernels::buffer_use::transfer);
      each = std::move(copy);
    }
  }
  return tensors;
}

} // namespace sluice::net
