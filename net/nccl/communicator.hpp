#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <functional>
#include <string>

namespace sluice::net::nccl {

/// A non-blocking communicator of one rank: every call is followed until NCCL is done with it, or
/// the deadline has passed. After that it can only be aborted.
///
/// Thread: one, from the first call to the last.
class communicator {
public:
  communicator() = default;
  ~communicator();
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  struct place {
    int ranks = 0;
    int rank = 0;
    std::chrono::milliseconds deadline{};
  };
  /// Returns when all ranks have joined. Errors: std::runtime_error.
  void join(const ncclUniqueId& id, const place& where);

  bool joined() const noexcept { return handle_ != nullptr; }

  /// Makes the calls as one group and returns when it is enqueued. `what` is for errors.
  void group(const std::string& what, const std::function<void(ncclComm_t)>& calls);

  /// Gives up whatever is under way.
  void abort() noexcept;

private:
  void finish(const std::string& what, ncclResult_t result);

  ncclComm_t handle_ = nullptr;
  place where_;
};

/// Errors: std::runtime_error "what: NCCL's text".
void check(ncclResult_t result, const std::string& what);

} // namespace sluice::net::nccl
