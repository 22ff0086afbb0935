#pragma once

// The few names in which nvcc and the emulation of tests/emulation differ. Every .cu file is
// compiled by both; the emulated build puts its own definitions in front of it.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#ifdef __CUDACC__

/// SLUICE_SHARED(float, sums, [8][33]): a shared variable of a kernel.
#define SLUICE_SHARED(type, name, extents) __shared__ type name extents
/// SLUICE_DYNAMIC_SHARED(float, tile): the shared memory that the launch asks for.
#define SLUICE_DYNAMIC_SHARED(type, name)                                                          \
  extern __shared__ __align__(16) unsigned char sluice_dynamic_shared[];                           \
  type* name = reinterpret_cast<type*>(sluice_dynamic_shared)
/// SLUICE_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...): returns a cudaError_t.
#define SLUICE_LAUNCH(kernel, ...) ::sluice::kernels::cuda::launch(&kernel, __VA_ARGS__)

namespace sluice::kernels::cuda {

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t on, Arguments&&... arguments) {
  cudaLaunchConfig_t how{};
  how.gridDim = grid;
  how.blockDim = block;
  how.dynamicSmemBytes = shared_bytes;
  how.stream = on;
  return cudaLaunchKernelEx(&how, kernel, static_cast<Parameters>(arguments)...);
}

} // namespace sluice::kernels::cuda

#elif !defined(SLUICE_EMULATED)
#error "compiled by nvcc, or for the emulation with its header in front"
#endif
