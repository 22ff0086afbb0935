// The products of a linear layer are in product_cublas.cpp; here is the gradient of its bias.

#include "kernels/cuda/column_sums.hpp"
#include "kernels/cuda/operations.hpp"

namespace sluice::kernels::cuda {

namespace {

// Reads each element once: bound by memory, expected at 80% of its bandwidth from 4096 rows on.
template <class T>
__global__ void __launch_bounds__(256)
  sum_rows_kernel(const T* rows, std::int64_t row_count, std::int64_t columns, float* parts) {
  SLUICE_SHARED(float, shared, [sum_lanes][sum_columns + 1]);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * sum_columns + threadIdx.x;
  const auto range = part_of(row_count);
  float sum = 0;
  if (column < columns)
    for (auto i = range.first + threadIdx.y; i < range.end; i += sum_lanes)
      sum += load(rows + i * columns + column);
  sum = add_lanes(sum, shared);
  if (threadIdx.y == 0 && column < columns)
    parts[blockIdx.y * columns + column] = sum;
}

} // namespace

void operations::add_rows(stream& on, const tensor& rows, tensor& sums) {
  const auto row_count = rows.shape().rows();
  const auto columns = rows.shape()[-1];
  auto parts = on.allocate(dtype::float32, {row_parts(row_count), columns});
  with_element(rows.type(), "linear", [&]<class T>(T) {
    check(SLUICE_LAUNCH(sum_rows_kernel<T>, sum_grid(row_count, columns),
                        dim3(sum_columns, sum_lanes), 0, stream_, elements<T>(rows), row_count,
                        columns, elements<float>(parts)),
          "linear's bias gradient");
  });
  check(SLUICE_LAUNCH(add_parts_kernel, blocks_for(columns), dim3(256), 0, stream_,
                      elements<float>(parts), columns, row_parts(row_count), elements<float>(sums),
                      true),
        "linear's bias gradient");
}

} // namespace sluice::kernels::cuda
