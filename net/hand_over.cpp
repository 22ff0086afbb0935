#include "net/hand_over.hpp"

#include "kernels/copy.hpp"

namespace sluice::net {

namespace {

bool share_memory(kernels::device& one, kernels::device& other) {
  return &one == &other || (one.is_host() && other.is_host());
}

} // namespace

kernels::tensor_list hand_over(kernels::tensor_list tensors, kernels::buffer_pool& pool) {
  for (auto& each : tensors) {
    if (!each)
      continue;
    if (each.sole_handle() && share_memory(*each.where(), *pool.memory())) {
      each.charge_to(pool, kernels::buffer_use::transfer);
    } else {
      auto copy = kernels::transferred(pool, each);
      copy.set_use(kernels::buffer_use::transfer);
      each = std::move(copy);
    }
  }
  return tensors;
}

} // namespace sluice::net
