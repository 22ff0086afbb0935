#include "cli/gpus.hpp"

#include <stdexcept>

#include "net/local.hpp"

namespace sluice::cli {

gpu_list list_gpus() {
  return {{}, "not in this build; -DSLUICE_CUDA=ON makes one with CUDA"};
}

std::shared_ptr<kernels::device> open_gpu(int) {
  throw std::runtime_error(list_gpus().why_none);
}

std::shared_ptr<net::network> gpu_network(std::int32_t stages, std::vector<std::int32_t>) {
  return net::make_local_network(stages + 1);
}

net::gpu_channels gpu_channels() {
  return {};
}

} // namespace sluice::cli
