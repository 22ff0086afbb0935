#pragma once

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/stream.hpp"

// Sums over the rows of a matrix, deterministic and on the whole device: blocks of 32 columns and
// a part of the rows each leave a partial sum, and a second kernel adds those in order.

namespace sluice::kernels::cuda {

constexpr int sum_columns = 32; ///< of a block; its threads are 32 x 8
constexpr int sum_lanes = 8;

/// How many parts the rows are cut into: by their number alone.
inline std::int64_t row_parts(std::int64_t rows) {
  const auto parts = (rows + 127) / 128;
  return parts < 1 ? 1 : parts > 64 ? 64 : parts;
}

/// The rows [first, end) of a block's part.
struct row_range {
  std::int64_t first;
  std::int64_t end;
};
__device__ inline row_range part_of(std::int64_t rows) {
  const std::int64_t each = (rows + gridDim.y - 1) / gridDim.y;
  const std::int64_t first = each * blockIdx.y;
  return {first, first + each < rows ? first + each : rows};
}

/// Adds what the threads of one column have; the result counts in the threads of row 0.
__device__ inline float add_lanes(float mine, float (&shared)[sum_lanes][sum_columns + 1]) {
  __syncthreads();
  shared[threadIdx.y][threadIdx.x] = mine;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < sum_lanes; ++i)
    sum += shared[i][threadIdx.x];
  return sum;
}

/// to[i] = (accumulate ? to[i] : 0) + parts[0][i] + parts[1][i] + ...
__global__ inline void __launch_bounds__(256)
  add_parts_kernel(const float* parts, std::int64_t count, std::int64_t part_count, float* to,
                   bool accumulate) {
  for (auto i = first_element(); i < count; i += element_stride()) {
    float sum = 0;
    for (std::int64_t part = 0; part < part_count; ++part)
      sum += parts[part * count + i];
    to[i] = accumulate ? to[i] + sum : sum;
  }
}

inline dim3 sum_grid(std::int64_t rows, std::int64_t columns) {
  return dim3(static_cast<unsigned>((columns + sum_columns - 1) / sum_columns),
              static_cast<unsigned>(row_parts(rows)));
}

} // namespace sluice::kernels::cuda
