// The CUDA runtime's functions for devices, memory, copies and kernels. See engine.hpp.

#include <cstring>
#include <map>
#include <utility>

#include "tests/emulation/fault.hpp"
#include "tests/emulation/runtime_call.hpp"

namespace sluice::emulation {

namespace {

thread_local int device_here = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local bool in_host_function = false;
std::map<const void*, std::size_t> shared_limits; // raised by cudaFuncSetAttribute()

constexpr std::size_t default_shared_bytes = 48 << 10;
constexpr std::size_t most_shared_bytes = 227 << 10;
constexpr std::size_t memory_bytes = std::size_t{1} << 30;

} // namespace

call::call(const char* function) : all(engine::get()), lock(all.guard) {
  static const bool named = [] {
    name_faults();
    return true;
  }();
  static_cast<void>(named);
  if (in_host_function)
    all.violate_locked(std::string(function) + " is called from a host function");
}

cudaError_t call::result(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady)
    last_error = error;
  return error;
}

device_state& call::device() {
  return *all.devices[static_cast<std::size_t>(device_here)];
}

cudaError_t call::enqueue(cudaStream_t on, operation_ptr what) {
  auto* stream = stream_of(on);
  if (stream == nullptr) {
    all.violate_locked(what->label + " on the default stream, which waits for all others");
    return result(cudaErrorInvalidResourceHandle);
  }
  return result(all.enqueue(lock, *stream, std::move(what)));
}

bool call::synchronize(stream_state& on, const char* function) {
  if (on.pending.empty())
    return true;
  const auto last = on.pending.back();
  return all.wait_locked(
    lock, std::string(function) + ", stream " + std::to_string(on.id), {last},
    [&] { return on.pending.empty() || on.pending.front()->number > last->number; });
}

bool call::synchronize_device(const char* function) {
  bool fine = true;
  auto& here = device();
  for (std::size_t i = 0; i < here.streams.size(); ++i)
    fine = synchronize(*here.streams[i], function) && fine;
  return fine;
}

stream_state* stream_of(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
    return nullptr;
  return reinterpret_cast<stream_state*>(handle);
}

int current_device() {
  return device_here;
}

// -- kernels -----------------------------------------------------------------------------------

namespace {

std::string bad_launch(call& in, const launch& what, const std::vector<const void*>& pointers,
                       const stream_state* on) {
  const auto threads = std::size_t{what.block.x} * what.block.y * what.block.z;
  const auto limit =
    shared_limits.contains(what.function) ? shared_limits[what.function] : default_shared_bytes;
  if (threads == 0 || threads > 1024 || what.grid.x == 0 || what.grid.y == 0 || what.grid.z == 0
      || what.grid.y > 65535 || what.grid.z > 65535)
    return "a grid or block of a size that no device has";
  if (what.shared_bytes > limit)
    return "more dynamic shared memory than allowed";
  if (on == nullptr || on->device != current_device())
    return "a stream of another device, or none";
  const auto mine = std::uint64_t{1} << current_device() | in.device().peers;
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    if (pointers[i] == nullptr || in.is_pinned(pointers[i], 1))
      continue;
    const auto of = in.all.device_bit_of(pointers[i]);
    if ((of & mine) == 0)
      return "pointer argument " + std::to_string(i) + " is not the device's memory";
  }
  return {};
}

} // namespace

cudaError_t enqueue_kernel(launch what, std::function<void()> lane,
                           const std::vector<const void*>& pointers, cudaStream_t on) {
  call in("a kernel launch");
  const auto bad = bad_launch(in, what, pointers, stream_of(on));
  if (!bad.empty()) {
    in.all.violate_locked(std::string("kernel ") + what.kernel + ": " + bad);
    return in.result(cudaErrorInvalidValue);
  }
  ++in.all.launches[what.kernel];
  const auto device = current_device();
  auto made = std::make_shared<operation>();
  made->label = std::string("kernel ") + what.kernel;
  made->opens = std::uint64_t{1} << device | in.device().peers;
  made->body = [what, device, lane = std::move(lane)] {
    auto wrong = run_grid(what, lane);
    auto& all = engine::get();
    const std::lock_guard lock(all.guard);
    if (wrong.empty()) {
      wrong = all.devices[static_cast<std::size_t>(device)]->memory.overrun();
      if (!wrong.empty())
        wrong = std::string("kernel ") + what.kernel + " wrote to " + wrong;
    }
    if (wrong.empty())
      return;
    all.violate_locked(wrong);
    all.break_device_locked(device, cudaErrorLaunchFailure);
  };
  return in.enqueue(on, std::move(made));
}

// -- memory ------------------------------------------------------------------------------------

bool call::is_pinned(const void* address, std::size_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto after = all.pinned.upper_bound(at);
  if (after == all.pinned.begin())
    return false;
  --after;
  return at + bytes <= after->first + after->second;
}

namespace {

/// What is wrong with one side of a copy, or nothing.
std::string bad_side(const call& in, const void* address, std::size_t bytes, bool on_device) {
  const auto bit = in.all.device_bit_of(address);
  if (on_device != (bit != 0))
    return "a copy of another kind than its pointers";
  if (!on_device)
    return in.is_pinned(address, bytes) ? ""
                                        : "an asynchronous copy with memory that is not pinned";
  for (std::size_t i = 0; i < in.all.devices.size(); ++i)
    if (bit >> i & 1U && in.all.devices[i]->memory.bytes_from(address) < bytes)
      return "a copy out of bounds";
  return "";
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t on) {
  call in("cudaMemcpyAsync");
  if (bytes == 0)
    return cudaSuccess;
  auto bad = bad_side(in, to, bytes, kind != cudaMemcpyDeviceToHost);
  if (bad.empty())
    bad = bad_side(in, from, bytes, kind != cudaMemcpyHostToDevice);
  if (!bad.empty()) {
    in.all.violate_locked(bad);
    return in.result(cudaErrorInvalidValue);
  }
  auto made = std::make_shared<operation>();
  made->label = "a copy of " + std::to_string(bytes) + " bytes";
  made->opens = in.all.device_bit_of(to) | in.all.device_bit_of(from);
  made->body = [=] { std::memmove(to, from, bytes); };
  return in.enqueue(on, std::move(made));
}

} // namespace
} // namespace sluice::emulation

using namespace sluice::emulation;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  call in(__func__);
  if (in.all.device_count == 0)
    return in.result(cudaErrorInsufficientDriver); // and the count stays as it was
  *count = in.all.device_count;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  call in(__func__);
  if (device < 0 || device >= in.all.device_count)
    return in.result(cudaErrorInvalidDevice);
  device_here = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = device_here;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  call in(__func__);
  if (device < 0 || device >= in.all.device_count)
    return in.result(cudaErrorInvalidDevice);
  *properties = {};
  std::strncpy(properties->name, "emulated on the processor, not a GPU", sizeof properties->name);
  properties->major = 9;
  properties->warpSize = 32;
  properties->multiProcessorCount = 4;
  properties->totalGlobalMem = memory_bytes;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0; // clocks and widths, which it has none of
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = engine::get().device_count == 0 ? 0 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  call in(__func__);
  in.device().peers |= std::uint64_t{1} << peer;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  *free_bytes = *total = memory_bytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  call in(__func__);
  // The real one may wait for the device, which with NCCL's kernels is how programs hang.
  if (!in.synchronize_device("cudaMalloc"))
    return in.result(cudaErrorLaunchTimeout);
  ++in.all.allocations;
  *memory = in.device().memory.allocate(bytes);
  return *memory == nullptr ? in.result(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  call in(__func__);
  if (memory == nullptr)
    return cudaSuccess;
  const auto fine = in.synchronize_device("cudaFree");
  if (in.device().memory.release(memory))
    return fine ? cudaSuccess : in.result(cudaErrorLaunchTimeout);
  in.all.violate_locked("cudaFree of what this device did not allocate");
  return in.result(cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  call in(__func__);
  constexpr std::size_t page = 4096;
  *memory = std::aligned_alloc(page, (bytes + page) / page * page);
  std::memset(*memory, 0xFF, bytes);
  in.all.pinned[reinterpret_cast<std::uintptr_t>(*memory)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  call in(__func__);
  if (memory == nullptr)
    return cudaSuccess;
  const auto fine = in.synchronize_device("cudaFreeHost");
  in.all.pinned.erase(reinterpret_cast<std::uintptr_t>(memory));
  std::free(memory);
  return fine ? cudaSuccess : in.result(cudaErrorLaunchTimeout);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t on) {
  return copy(to, from, bytes, kind, on);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                cudaStream_t on) {
  return copy(to, from, bytes, cudaMemcpyDeviceToDevice, on);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t on) {
  call in(__func__);
  if (bytes == 0)
    return cudaSuccess;
  const auto bad = bad_side(in, to, bytes, true);
  if (!bad.empty()) {
    in.all.violate_locked("cudaMemsetAsync: " + bad);
    return in.result(cudaErrorInvalidValue);
  }
  auto made = std::make_shared<operation>();
  made->label = "a memset of " + std::to_string(bytes) + " bytes";
  made->opens = in.all.device_bit_of(to);
  made->body = [=] { std::memset(to, value, bytes); };
  return in.enqueue(on, std::move(made));
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  call in(__func__);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0
      || static_cast<std::size_t>(value) > most_shared_bytes)
    return in.result(cudaErrorInvalidValue);
  shared_limits[function] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t on, cudaHostFn_t function, void* argument) {
  call in(__func__);
  auto made = std::make_shared<operation>();
  made->kind = operation::kind::host_function;
  made->label = "a host function";
  made->body = [=] {
    in_host_function = true;
    function(argument);
    in_host_function = false;
  };
  return in.enqueue(on, std::move(made));
}

cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() {
  return last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
  case cudaSuccess:
    return "cudaSuccess";
  case cudaErrorInvalidValue:
    return "cudaErrorInvalidValue";
  case cudaErrorMemoryAllocation:
    return "cudaErrorMemoryAllocation";
  case cudaErrorInsufficientDriver:
    return "cudaErrorInsufficientDriver";
  case cudaErrorLaunchFailure:
    return "cudaErrorLaunchFailure";
  case cudaErrorLaunchTimeout:
    return "cudaErrorLaunchTimeout";
  default:
    return "a CUDA error";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInsufficientDriver
         ? "CUDA driver version is insufficient for CUDA runtime version"
         : cudaGetErrorName(error);
}

} // extern "C"
