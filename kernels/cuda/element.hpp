#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/cuda/launch.hpp"
#include "kernels/tensor.hpp"

// How kernels read and write elements: float32 and bfloat16, computed with in float32.

namespace sluice::kernels::cuda {

using bfloat16 = __nv_bfloat16;

__device__ inline float load(const float* from) {
  return *from;
}
__device__ inline float load(const bfloat16* from) {
  return __bfloat162float(*from);
}
__device__ inline void store(float* to, float value) {
  *to = value;
}
__device__ inline void store(bfloat16* to, float value) {
  *to = __float2bfloat16(value);
}

/// The elements of a tensor on a device; only a kernel may follow the pointer.
template <class T>
T* elements(tensor& of) {
  return reinterpret_cast<T*>(of.bytes_span().data());
}
template <class T>
const T* elements(const tensor& of) {
  return reinterpret_cast<const T*>(of.bytes_span().data());
}

/// Calls body(T{}) with the type of element that kernels know `type` by.
/// Errors: std::invalid_argument for any but float32 and bfloat16.
template <class Body>
void with_element(dtype type, const char* operation, Body&& body) {
  if (type == dtype::float32)
    body(float{});
  else if (type == dtype::bfloat16)
    body(bfloat16{});
  else
    throw std::invalid_argument(std::string(operation) + ": elements of " + std::string(name(type))
                                + ", expected F32 or BF16 on a GPU");
}

/// Blocks of 256 threads for `count` elements in a loop with stride: enough to fill any device.
inline dim3 blocks_for(std::int64_t count) {
  constexpr std::int64_t most = 2048;
  const auto wanted = (count + 255) / 256;
  return dim3(static_cast<unsigned>(wanted < 1 ? 1 : wanted > most ? most : wanted));
}

/// Where this thread begins in such a loop, and its stride.
__device__ inline std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t element_stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

} // namespace sluice::kernels::cuda
