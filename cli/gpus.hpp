#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "net/endpoint.hpp"
#include "net/gpu_channels.hpp"

// What the command knows of GPUs: cli/gpus_cuda.cpp where the build has CUDA, else gpus_none.cpp.

namespace sluice::cli {

struct gpu {
  std::string name; ///< "cuda:0"
  std::string what; ///< "NVIDIA H100, 80 GiB, ..."
};

/// The GPUs that there are, or why there are none.
struct gpu_list {
  std::vector<gpu> found = {};
  std::string why_none = {};
};
gpu_list list_gpus();

/// Errors: std::runtime_error.
std::shared_ptr<kernels::device> open_gpu(int index);

/// The channels of a pipeline of which these ranks, ascending, are on GPUs of their own; the
/// trainer and all others go by hand-off.
std::shared_ptr<net::network> gpu_network(std::int32_t stages, std::vector<std::int32_t> gpu_ranks);

/// NCCL between the GPUs of several processes.
net::gpu_channels gpu_channels();

} // namespace sluice::cli
