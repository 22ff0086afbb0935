#pragma once

#include "kernels/buffer_pool.hpp"
#include "kernels/tensor.hpp"

namespace sluice::net {

/// Charges tensors from another rank of this process to `pool`. A buffer that somebody else still
/// holds (the sender saved its output, or sends a view) is copied, since either side may go on to
/// work in place; so is one of another device, by way of the processor.
kernels::tensor_list hand_over(kernels::tensor_list tensors, kernels::buffer_pool& pool);

} // namespace sluice::net
