#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cli/gpus.hpp"
#include "kernels/cuda/device.hpp"
#include "net/local.hpp"
#include "net/nccl.hpp"

namespace sluice::cli {

gpu_list list_gpus() {
  gpu_list result;
  for (const auto& each : kernels::cuda::list(result.why_none))
    result.found.push_back(
      {fmt::format("cuda:{}", each.index),
       fmt::format("{}, {:.1f} GiB, {} multiprocessors, compute capability {}", each.name,
                   static_cast<double>(each.memory_bytes) / (1 << 30), each.multiprocessors,
                   each.capability)});
  if (result.found.empty())
    result.why_none = "no GPU: " + result.why_none;
  return result;
}

std::shared_ptr<kernels::device> open_gpu(int index) {
  return std::make_shared<kernels::cuda::device>(
    index, [](const std::string& what) { spdlog::info("{}", what); });
}

std::shared_ptr<net::network> gpu_network(std::int32_t stages,
                                          std::vector<std::int32_t> gpu_ranks) {
  std::shared_ptr<net::network> local = net::make_local_network(stages + 1);
  if (gpu_ranks.size() < 2)
    return local;
  net::nccl_options options;
  options.gpu_ranks = std::move(gpu_ranks);
  options.others = std::move(local);
  return net::make_nccl_network(std::move(options));
}

net::gpu_channels gpu_channels() {
  return net::nccl_channels();
}

} // namespace sluice::cli
