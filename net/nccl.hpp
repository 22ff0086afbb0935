#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "net/endpoint.hpp"
#include "net/gpu_channels.hpp"

namespace sluice::net {

struct nccl_options {
  std::vector<std::int32_t> gpu_ranks;        ///< those that compute on GPUs, ascending
  std::vector<std::uint8_t> id = {};          ///< of the run; empty: all GPUs are this process's
  std::shared_ptr<network> others;            ///< carries what is not from GPU to GPU
  std::chrono::milliseconds deadline{10'000}; ///< for what a call of NCCL waits for
};

/// Channels between the GPUs of one or of several processes, by NCCL: one communicator of all ranks
/// on GPUs, one stream a GPU. NCCL neither encrypts nor asks who connects.
///
/// NCCL's sends and receives have no names and may wait for each other on the device, so every rank
/// must enqueue them in one order (docs/gpus.md). A sender offers what it has ready; whoever
/// order_by() names puts the offers into one order and calls commit() at both ends with the same
/// groups. What the receiver needs to know comes with the offer.
///
/// Contract: the first open() returns when all ranks on GPUs have called theirs, and every pair has
/// exchanged a byte: a first use would hold up its host. A send's buffers belong to the channel
/// until NCCL has read them; a receive's belong to the pool of the receiver's stream.
/// Thread: per GPU, all calls from one thread, the stage's. Errors: std::runtime_error that names
/// the transfer, its ranks and what NCCL says.
std::unique_ptr<network> make_nccl_network(nccl_options options);

/// The same as functions, for processes that are told by others what to make.
gpu_channels nccl_channels();

} // namespace sluice::net
