#pragma once

// The names that a kernel uses, for g++: the emulated build puts this file in front of every .cu
// file (-include). What is not here, a shared kernel cannot use: <<<>>>, CUB, cooperative groups.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/emulation/engine.hpp"
#include "tests/emulation/lanes.hpp"

#define SLUICE_EMULATED

#undef __shared__
#define __shared__ static_assert(false, "SLUICE_SHARED(type, name, extents) in place of this");
#undef __launch_bounds__
#define __launch_bounds__(...)

#define SLUICE_SHARED(type, name, extents)                                                         \
  using name##_type = type extents;                                                                \
  static char name##_tag;                                                                          \
  auto& name = *static_cast<name##_type*>(                                                         \
    ::sluice::emulation::on_lane::shared(&name##_tag, sizeof(name##_type)))
#define SLUICE_DYNAMIC_SHARED(type, name)                                                          \
  type* name = static_cast<type*>(::sluice::emulation::on_lane::dynamic_shared())
#define SLUICE_LAUNCH(kernel, ...) ::sluice::emulation::launch_kernel(#kernel, &kernel, __VA_ARGS__)

// One grid runs at a time, on one thread.
inline uint3 threadIdx{};
inline uint3 blockIdx{};
inline dim3 blockDim{};
inline dim3 gridDim{};

inline void __syncthreads() {
  ::sluice::emulation::on_lane::barrier();
}

inline void __syncwarp(unsigned mask = ~0U) {
  const char nothing = 0;
  ::sluice::emulation::on_lane::exchange(mask, 1, &nothing, 1);
}

namespace sluice::emulation {

template <class T>
T shuffle(unsigned mask, int operation, T value, unsigned source) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  const auto* all = on_lane::exchange(mask, operation, &value, sizeof(T));
  if (source < 32)
    std::memcpy(&value, all + std::size_t{source} * 8, sizeof(T));
  return value;
}

/// Checks a launch as the runtime would and puts it on the stream. Arguments are converted to the
/// kernel's parameters here, as <<<>>> does it.
template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                          std::size_t shared_bytes, cudaStream_t on, Arguments&&... arguments) {
  static_assert((sizeof(std::decay_t<Parameters>) + ... + 0) <= 4096, "what a launch may carry");
  std::tuple<std::decay_t<Parameters>...> values(
    static_cast<Parameters>(std::forward<Arguments>(arguments))...);
  std::vector<const void*> pointers;
  const auto note = [&]<class T>(const T& value) {
    if constexpr (std::is_pointer_v<T>)
      pointers.push_back(value);
    else if constexpr (requires { value.each_pointer([](const void*) {}); })
      value.each_pointer([&](const void* pointer) { pointers.push_back(pointer); });
  };
  std::apply([&](const auto&... each) { (note(each), ...); }, values);
  return enqueue_kernel(
    {name, reinterpret_cast<const void*>(kernel), grid, block, shared_bytes},
    [kernel, values] { std::apply(kernel, values); }, pointers, on);
}

} // namespace sluice::emulation

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
  const auto mine = ::sluice::emulation::on_lane::index() % 32;
  return ::sluice::emulation::shuffle(mask, 2, value, mine ^ static_cast<unsigned>(bits));
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source) {
  return ::sluice::emulation::shuffle(mask, 3, value, static_cast<unsigned>(source) % 32);
}

inline int min(int a, int b) {
  return a < b ? a : b;
}

inline float rsqrtf(float x) {
  return 1.0F / std::sqrt(x);
}
inline float __expf(float x) {
  return std::exp(x);
}
