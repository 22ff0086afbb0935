#pragma once

#include "kernels/cuda/launch.hpp"

// Sums and maxima over a warp or a block, in an order that does not depend on timing. All threads
// take part and all get the result.

namespace sluice::kernels::cuda {

template <class T>
__device__ inline T warp_sum(T value) {
#pragma unroll
  for (int bits = 16; bits > 0; bits /= 2)
    value += __shfl_xor_sync(~0U, value, bits);
  return value;
}

__device__ inline float warp_max(float value) {
#pragma unroll
  for (int bits = 16; bits > 0; bits /= 2)
    value = fmaxf(value, __shfl_xor_sync(~0U, value, bits));
  return value;
}

/// Of a block of whole warps. May be called again at once.
template <class T>
__device__ inline T block_sum(T value) {
  SLUICE_SHARED(T, parts, [32]);
  value = warp_sum(value);
  __syncthreads(); // the last call's parts have been read
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = value;
  __syncthreads();
  T sum = 0;
  for (unsigned i = 0; i < blockDim.x / 32; ++i)
    sum += parts[i];
  return sum;
}

__device__ inline float block_max(float value) {
  SLUICE_SHARED(float, parts, [32]);
  value = warp_max(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = value;
  __syncthreads();
  float top = parts[0];
  for (unsigned i = 1; i < blockDim.x / 32; ++i)
    top = fmaxf(top, parts[i]);
  return top;
}

} // namespace sluice::kernels::cuda
