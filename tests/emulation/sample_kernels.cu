#include "tests/emulation/sample_kernels.hpp"

#include "kernels/cuda/launch.hpp"

namespace sluice::emulation::test {

namespace {

__global__ void scale_kernel(float* y, const float* x, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count)
    y[i] = 2 * x[i] + 1;
}

__global__ void sum_kernel(float* y, const float* x, int count) {
  SLUICE_SHARED(float, parts, [32]);
  float mine = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    mine += x[i];
  for (int bits = 16; bits > 0; bits /= 2)
    mine += __shfl_xor_sync(~0U, mine, bits);
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0;
    for (unsigned i = 0; i < blockDim.x / 32; ++i)
      total += parts[i];
    y[0] = total;
  }
}

__global__ void without_barrier_kernel(float* y, const float* x) {
  SLUICE_SHARED(float, kept, [64]);
  kept[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = kept[63 - threadIdx.x];
}

__global__ void divergent_barrier_kernel(float* y) {
  if (threadIdx.x < 16)
    y[threadIdx.x] = __shfl_xor_sync(~0U, 1.0F, 1);
  else
    __syncthreads();
}

__global__ void block_race_kernel(float* y) {
  if (threadIdx.x == 0)
    y[0] = static_cast<float>(blockIdx.x);
}

__global__ void uninitialised_shared_kernel(float* y) {
  SLUICE_SHARED(float, kept, [32]);
  if (threadIdx.x < 16)
    kept[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = kept[threadIdx.x];
}

__global__ void out_of_bounds_kernel(float* y, int count) {
  y[count] = 1;
}

} // namespace

cudaError_t scale(float* y, const float* x, int count, cudaStream_t on) {
  return SLUICE_LAUNCH(scale_kernel, dim3((count + 63) / 64), dim3(64), 0, on, y, x, count);
}

cudaError_t sum(float* y, const float* x, int count, cudaStream_t on) {
  return SLUICE_LAUNCH(sum_kernel, dim3(1), dim3(128), 0, on, y, x, count);
}

cudaError_t without_barrier(float* y, const float* x, cudaStream_t on) {
  return SLUICE_LAUNCH(without_barrier_kernel, dim3(1), dim3(64), 0, on, y, x);
}

cudaError_t divergent_barrier(float* y, cudaStream_t on) {
  return SLUICE_LAUNCH(divergent_barrier_kernel, dim3(1), dim3(32), 0, on, y);
}

cudaError_t block_race(float* y, cudaStream_t on) {
  return SLUICE_LAUNCH(block_race_kernel, dim3(4), dim3(32), 0, on, y);
}

cudaError_t uninitialised_shared(float* y, cudaStream_t on) {
  return SLUICE_LAUNCH(uninitialised_shared_kernel, dim3(1), dim3(32), 0, on, y);
}

cudaError_t out_of_bounds(float* y, int count, cudaStream_t on) {
  return SLUICE_LAUNCH(out_of_bounds_kernel, dim3(1), dim3(1), 0, on, y, count);
}

} // namespace sluice::emulation::test
