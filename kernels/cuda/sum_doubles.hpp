#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sluice::kernels::cuda {

/// *sum = parts[0] + ... in an order that depends on the count alone (ops/sum_of_squares.cu).
void sum_doubles(cudaStream_t on, const double* parts, std::int64_t count, double* sum);

} // namespace sluice::kernels::cuda
