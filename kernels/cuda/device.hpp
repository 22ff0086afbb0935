#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/operations.hpp"
#include "kernels/device.hpp"

namespace sluice::kernels::cuda {

/// A GPU: its memory, one stream on which everything is computed, one by which the processor
/// fetches results, and pinned memory through which its bytes pass, so that no copy waits for
/// another.
///
/// Thread: the calls that enqueue come from one thread at a time, the stage's; fetch() from any.
class device final : public kernels::device {
public:
  /// tell: on the thread that enqueues. Errors: std::runtime_error when there is no such GPU, or it
  /// fails.
  explicit device(int index, remark tell = {});
  ~device() override;

  std::string name() const override { return "cuda:" + std::to_string(index_); }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* memory, std::size_t bytes) noexcept override;
  void fill(void* memory, std::byte value, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void upload(void* to, const void* from, std::size_t bytes) override;
  void download(void* to, const void* from, std::size_t bytes) override;
  void fetch(void* to, const void* from, std::size_t bytes) override;
  void when_done(std::function<void()> then) override;
  void wait() override;
  ops::device_operations* operations() noexcept override { return operations_.get(); }

  int index() const noexcept { return index_; }
  cudaStream_t compute_stream() const noexcept { return compute_; }

  /// Makes this GPU the calling thread's.
  void select() const;

private:
  /// A pinned buffer, and the event after which it is free again.
  struct staging {
    void* memory = nullptr;
    std::size_t bytes = 0;
    cudaEvent_t used = nullptr;
    bool taken = false;
  };

  staging& take_staging(std::size_t bytes);
  void bring(void* to, const void* from, std::size_t bytes, cudaStream_t on);

  int index_;
  cudaStream_t compute_ = nullptr;
  cudaStream_t fetching_ = nullptr;
  std::unique_ptr<cuda::operations> operations_;
  std::mutex guard_;
  std::vector<std::unique_ptr<staging>> staging_;
};

/// What `sluice devices` says of one GPU.
struct description {
  int index = 0;
  std::string name;
  std::size_t memory_bytes = 0;
  int multiprocessors = 0;
  std::string capability; ///< "9.0"
};

/// The GPUs that there are. `why` says, when there are none, why.
std::vector<description> list(std::string& why);

} // namespace sluice::kernels::cuda
