#include "kernels/cuda/device.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/cuda/check.hpp"

namespace sluice::kernels::cuda {

device::device(int index, remark tell) : index_(index) {
  std::string why;
  const auto all = list(why);
  if (index < 0 || index >= static_cast<int>(all.size()))
    throw std::runtime_error(
      all.empty() ? "no GPU: " + why : fmt::format("no cuda:{}: there are {}", index, all.size()));
  select();
  for (auto* stream : {&compute_, &fetching_})
    check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "a stream");
  operations_ = std::make_unique<cuda::operations>(
    compute_, [tell = std::move(tell), name = name()](const std::string& what) {
      if (tell)
        tell(name + ": " + what);
    });
}

device::~device() {
  cudaSetDevice(index_);
  cudaStreamSynchronize(compute_);
  cudaStreamSynchronize(fetching_);
  for (const auto& each : staging_) {
    cudaEventDestroy(each->used);
    cudaFreeHost(each->memory);
  }
  cudaStreamDestroy(compute_);
  cudaStreamDestroy(fetching_);
}

void device::select() const {
  check(cudaSetDevice(index_), "choosing a GPU");
}

void* device::allocate(std::size_t bytes) {
  select();
  void* memory = nullptr;
  const auto result = cudaMalloc(&memory, bytes);
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError(); // it would be the next call's
    throw std::bad_alloc();
  }
  check(result, "allocating on the GPU");
  return memory;
}

void device::deallocate(void* memory, std::size_t) noexcept {
  cudaSetDevice(index_);
  cudaFree(memory);
}

void device::fill(void* memory, std::byte value, std::size_t bytes) {
  select();
  check(cudaMemsetAsync(memory, std::to_integer<int>(value), bytes, compute_), "filling");
}

void device::copy(void* to, const void* from, std::size_t bytes) {
  select();
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, compute_), "copying");
}

/// A free pinned buffer of the size, rounded up to a power of two so that few are made.
device::staging& device::take_staging(std::size_t bytes) {
  const std::lock_guard lock(guard_);
  for (const auto& each : staging_)
    if (!each->taken && each->bytes >= bytes && cudaEventQuery(each->used) == cudaSuccess) {
      each->taken = true;
      return *each;
    }
  auto made = std::make_unique<staging>();
  made->bytes = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
  check(cudaHostAlloc(&made->memory, made->bytes, cudaHostAllocDefault), "pinned memory");
  check(cudaEventCreateWithFlags(&made->used, cudaEventDisableTiming), "an event");
  made->taken = true;
  staging_.push_back(std::move(made));
  return *staging_.back();
}

void device::upload(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0)
    return;
  select();
  auto& through = take_staging(bytes);
  std::memcpy(through.memory, from, bytes);
  check(cudaMemcpyAsync(to, through.memory, bytes, cudaMemcpyHostToDevice, compute_), "uploading");
  check(cudaEventRecord(through.used, compute_), "uploading");
  const std::lock_guard lock(guard_);
  through.taken = false;
}

void device::download(void* to, const void* from, std::size_t bytes) {
  bring(to, from, bytes, compute_);
}

void device::fetch(void* to, const void* from, std::size_t bytes) {
  bring(to, from, bytes, fetching_);
}

void device::bring(void* to, const void* from, std::size_t bytes, cudaStream_t on) {
  if (bytes == 0)
    return;
  select();
  auto& through = take_staging(bytes);
  check(cudaMemcpyAsync(through.memory, from, bytes, cudaMemcpyDeviceToHost, on), "downloading");
  check(cudaEventRecord(through.used, on), "downloading");
  check(cudaEventSynchronize(through.used), "downloading");
  std::memcpy(to, through.memory, bytes);
  const std::lock_guard lock(guard_);
  through.taken = false;
}

void device::when_done(std::function<void()> then) {
  select();
  auto held = std::make_unique<std::function<void()>>(std::move(then));
  const auto call = [](void* argument) {
    const std::unique_ptr<std::function<void()>> mine(
      static_cast<std::function<void()>*>(argument));
    (*mine)();
  };
  check(cudaLaunchHostFunc(compute_, call, held.get()), "a call when the GPU is done");
  static_cast<void>(held.release()); // the call's now
}

void device::wait() {
  select();
  check(cudaStreamSynchronize(compute_), "waiting for the GPU");
}

std::vector<description> list(std::string& why) {
  int count = 0; // which an error leaves as it was
  const auto result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) {
    cudaGetLastError();
    why = fmt::format("{} ({})", cudaGetErrorString(result), cudaGetErrorName(result));
    return {};
  }
  if (count == 0)
    why = "the driver finds none";
  std::vector<description> all;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, i), "asking a GPU what it is");
    all.push_back({i, properties.name, properties.totalGlobalMem, properties.multiProcessorCount,
                   fmt::format("{}.{}", properties.major, properties.minor)});
  }
  return all;
}

} // namespace sluice::kernels::cuda
