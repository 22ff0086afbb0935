#pragma once

#include "tests/emulation/engine.hpp"

namespace sluice::emulation {

/// One call of the CUDA API, from its first line to its return: holds the engine's lock.
struct call {
  explicit call(const char* function);

  /// Notes an error for cudaGetLastError() and returns it.
  cudaError_t result(cudaError_t error);

  device_state& device(); ///< the calling thread's

  cudaError_t enqueue(cudaStream_t on, operation_ptr what);

  /// Waits for all that is in a stream now; false after a deadlock.
  bool synchronize(stream_state& on, const char* function);
  bool synchronize_device(const char* function);

  bool is_pinned(const void* address, std::size_t bytes) const;

  engine& all;
  std::unique_lock<std::mutex> lock;
};

} // namespace sluice::emulation
