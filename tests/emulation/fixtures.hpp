#pragma once

#include <cuda_runtime_api.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/emulation/control.hpp"

namespace sluice::emulation::test {

/// Errors: std::runtime_error.
inline void must(cudaError_t result) {
  if (result != cudaSuccess)
    throw std::runtime_error(cudaGetErrorName(result));
}

class cuda_stream {
public:
  explicit cuda_stream(int device = 0) {
    must(cudaSetDevice(device));
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~cuda_stream() { cudaStreamDestroy(stream_); }
  cuda_stream(const cuda_stream&) = delete;
  cuda_stream& operator=(const cuda_stream&) = delete;

  operator cudaStream_t() const { return stream_; }
  cudaError_t synchronize() const { return cudaStreamSynchronize(stream_); }

private:
  cudaStream_t stream_ = nullptr;
};

class cuda_event {
public:
  cuda_event() { must(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~cuda_event() { cudaEventDestroy(event_); }
  cuda_event(const cuda_event&) = delete;
  cuda_event& operator=(const cuda_event&) = delete;

  operator cudaEvent_t() const { return event_; }

private:
  cudaEvent_t event_ = nullptr;
};

/// Floats on the current device, with a pinned twin on the host.
class floats {
public:
  explicit floats(std::size_t count, float value = 0) : count_(count) {
    void* memory = nullptr;
    must(cudaMalloc(&memory, bytes()));
    device_ = static_cast<float*>(memory);
    must(cudaHostAlloc(&memory, bytes(), cudaHostAllocDefault));
    host_ = static_cast<float*>(memory);
    for (std::size_t i = 0; i < count; ++i)
      host_[i] = value;
  }
  ~floats() {
    cudaFree(device_);
    cudaFreeHost(host_);
  }
  floats(const floats&) = delete;
  floats& operator=(const floats&) = delete;

  float* device() const { return device_; }
  float* host() const { return host_; }
  std::size_t bytes() const { return count_ * sizeof(float); }

  cudaError_t upload(cudaStream_t on) const {
    return cudaMemcpyAsync(device_, host_, bytes(), cudaMemcpyHostToDevice, on);
  }
  cudaError_t download(cudaStream_t on) const {
    return cudaMemcpyAsync(host_, device_, bytes(), cudaMemcpyDeviceToHost, on);
  }

  /// The device's elements, once all before it in the stream is done.
  std::vector<float> read(const cuda_stream& on) const {
    must(download(on));
    must(on.synchronize());
    return {host_, host_ + count_};
  }

private:
  std::size_t count_;
  float* device_ = nullptr;
  float* host_ = nullptr;
};

/// A test's run of the emulation: clean before, and back to eager and forward after.
class session {
public:
  explicit session(schedule which = schedule::eager, std::uint64_t seed = 1) {
    reset_findings();
    set_on_deadlock(on_deadlock::fail);
    set_schedule(which, seed);
  }
  ~session() {
    set_schedule(schedule::eager);
    set_lane_order(lane_order::forward);
    set_device_model(device_model::one_resident);
    set_send_model(send_model::rendezvous);
    set_fused_gelu(true);
    set_on_deadlock(on_deadlock::abort);
    reset_findings();
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;
};

} // namespace sluice::emulation::test
