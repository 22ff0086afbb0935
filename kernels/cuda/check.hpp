#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace sluice::kernels::cuda {

/// Errors: std::runtime_error "gelu: cudaErrorLaunchFailure (unspecified launch failure)".
inline void check(cudaError_t result, const char* doing) {
  if (result != cudaSuccess)
    throw std::runtime_error(std::string(doing) + ": " + cudaGetErrorName(result) + " ("
                             + cudaGetErrorString(result) + ")");
}

} // namespace sluice::kernels::cuda
