#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "net/endpoint.hpp"

namespace sluice::net {

/// What NCCL's channels are made from in one of the processes of a run.
struct gpu_run {
  std::vector<std::int32_t> gpu_ranks; ///< of the whole run, ascending, each on a GPU of its own
  std::vector<std::uint8_t> id;        ///< from make_id() in one of the processes
  std::shared_ptr<network> others;     ///< carries what is not from GPU to GPU
};

/// NCCL, for those who are compiled without it too: empty functions where there is none.
/// Errors of both: std::runtime_error.
struct gpu_channels {
  std::function<std::vector<std::uint8_t>()> make_id = {};
  std::function<std::shared_ptr<network>(gpu_run)> connect = {};
};

} // namespace sluice::net
