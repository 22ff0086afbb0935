#pragma once

#include <cuda_runtime.h>

namespace sluice::emulation::test {

/// y[i] = 2 x[i] + 1.
cudaError_t scale(float* y, const float* x, int count, cudaStream_t on);

/// One block; y[0] = the sum of x, through shared memory and warp operations.
cudaError_t sum(float* y, const float* x, int count, cudaStream_t on);

// Broken on purpose.
cudaError_t without_barrier(float* y, const float* x, cudaStream_t on); ///< 64 elements
cudaError_t divergent_barrier(float* y, cudaStream_t on);               ///< waits for ever
cudaError_t block_race(float* y, cudaStream_t on);                      ///< y[0] by any block
cudaError_t uninitialised_shared(float* y, cudaStream_t on);            ///< 32 elements
cudaError_t out_of_bounds(float* y, int count, cudaStream_t on);        ///< y[count]

} // namespace sluice::emulation::test
