#include "net/nccl/communicator.hpp"

#include <stdexcept>
#include <thread>

#include <fmt/format.h>

namespace sluice::net::nccl {

void check(ncclResult_t result, const std::string& what) {
  if (result != ncclSuccess && result != ncclInProgress)
    throw std::runtime_error(fmt::format("{}: NCCL: {}", what, ncclGetErrorString(result)));
}

communicator::~communicator() {
  abort();
}

void communicator::join(const ncclUniqueId& id, const place& where) {
  where_ = where;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = 2; // each costs device memory for every edge; two fill a link
  finish("joining the communicator",
         ncclCommInitRankConfig(&handle_, where.ranks, id, where.rank, &config));
}

void communicator::group(const std::string& what, const std::function<void(ncclComm_t)>& calls) {
  check(ncclGroupStart(), what);
  try {
    calls(handle_);
  } catch (...) {
    ncclGroupEnd();
    throw;
  }
  finish(what, ncclGroupEnd());
}

/// Any other call would be an error before NCCL is done with this one.
void communicator::finish(const std::string& what, ncclResult_t result) {
  check(result, what);
  const auto end = std::chrono::steady_clock::now() + where_.deadline;
  auto state = ncclInProgress;
  for (;;) {
    check(ncclCommGetAsyncError(handle_, &state), what);
    check(state, what);
    if (state == ncclSuccess)
      return;
    if (std::chrono::steady_clock::now() > end)
      throw std::runtime_error(fmt::format("{}: NCCL has not begun with it after {} ms; rank {} of "
                                           "{} waits for its peers",
                                           what, where_.deadline.count(), where_.rank,
                                           where_.ranks));
    std::this_thread::yield();
  }
}

void communicator::abort() noexcept {
  if (handle_ == nullptr)
    return;
  ncclGroupStart();
  ncclCommAbort(handle_);
  ncclGroupEnd();
  handle_ = nullptr;
}

} // namespace sluice::net::nccl
