#include "kernels/cuda/column_sums.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/reduce.hpp"

namespace sluice::kernels::cuda {

namespace {

constexpr float epsilon = 1e-5F;
constexpr int rows_per_block = 8; // a warp each

__device__ inline std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * rows_per_block + threadIdx.x / 32;
}

dim3 grid_for(std::int64_t rows) {
  return dim3(static_cast<unsigned>(rows < 1 ? 1 : (rows + rows_per_block - 1) / rows_per_block));
}

template <class T>
struct affine_pointers {
  const T* weight;
  const T* bias;
};

template <class T>
__device__ inline void normalise(const T* x, float mean, float r, affine_pointers<T> with, T* y,
                                 std::int64_t columns) {
  for (std::int64_t j = threadIdx.x % 32; j < columns; j += 32)
    store(y + j, (load(x + j) - mean) * r * load(with.weight + j) + load(with.bias + j));
}

// A warp a row. Reads x three times, of which two come from the cache, and writes y: bound by
// memory, expected at 80% of its bandwidth. Statistics: [2, rows], means, then 1 / deviations.
template <class T>
__global__ void __launch_bounds__(256)
  layer_norm_kernel(const T* input, affine_pointers<T> with, T* output, float* statistics,
                    std::int64_t rows, std::int64_t columns) {
  const auto row = row_of_warp();
  if (row >= rows)
    return;
  const T* x = input + row * columns;
  float sum = 0;
  for (std::int64_t j = threadIdx.x % 32; j < columns; j += 32)
    sum += load(x + j);
  const float mean = warp_sum(sum) / static_cast<float>(columns);
  float squares = 0;
  for (std::int64_t j = threadIdx.x % 32; j < columns; j += 32) {
    const float difference = load(x + j) - mean;
    squares += difference * difference;
  }
  const float r = rsqrtf(warp_sum(squares) / static_cast<float>(columns) + epsilon);
  normalise(x, mean, r, with, output + row * columns, columns);
  if (threadIdx.x % 32 == 0) {
    statistics[row] = mean;
    statistics[rows + row] = r;
  }
}

template <class T>
__global__ void __launch_bounds__(256)
  layer_norm_again_kernel(const T* input, const float* statistics, affine_pointers<T> with,
                          T* output, std::int64_t rows, std::int64_t columns) {
  const auto row = row_of_warp();
  if (row >= rows)
    return;
  normalise(input + row * columns, statistics[row], statistics[rows + row], with,
            output + row * columns, columns);
}

template <class T>
struct backward_pointers {
  const T* dy;
  const T* x;
  const float* statistics;
  const T* weight;
};

// With n = (x - mean) r and g = dy weight: dx = r (g - mean(g) - n mean(g n)). A warp a row; reads
// two and writes one element, expected at 80% of the bandwidth.
template <class T>
__global__ void __launch_bounds__(256)
  layer_norm_input_gradient_kernel(backward_pointers<T> from, T* gradient, std::int64_t rows,
                                   std::int64_t columns) {
  const auto row = row_of_warp();
  if (row >= rows)
    return;
  const float mean = from.statistics[row];
  const float r = from.statistics[rows + row];
  const auto begin = row * columns;
  float sum_g = 0;
  float sum_gn = 0;
  for (std::int64_t j = threadIdx.x % 32; j < columns; j += 32) {
    const float g = load(from.dy + begin + j) * load(from.weight + j);
    sum_g += g;
    sum_gn += g * ((load(from.x + begin + j) - mean) * r);
  }
  const float mean_g = warp_sum(sum_g) / static_cast<float>(columns);
  const float mean_gn = warp_sum(sum_gn) / static_cast<float>(columns);
  for (std::int64_t j = threadIdx.x % 32; j < columns; j += 32) {
    const float g = load(from.dy + begin + j) * load(from.weight + j);
    const float n = (load(from.x + begin + j) - mean) * r;
    store(gradient + begin + j, r * (g - mean_g - n * mean_gn));
  }
}

// parts: [part, 2, columns]: of the weight's gradient, then of the bias's.
template <class T>
__global__ void __launch_bounds__(256)
  layer_norm_affine_kernel(backward_pointers<T> from, float* parts, std::int64_t rows,
                           std::int64_t columns) {
  SLUICE_SHARED(float, shared, [sum_lanes][sum_columns + 1]);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * sum_columns + threadIdx.x;
  const auto range = part_of(rows);
  float weight = 0;
  float bias = 0;
  if (column < columns)
    for (auto i = range.first + threadIdx.y; i < range.end; i += sum_lanes) {
      const float dy = load(from.dy + i * columns + column);
      weight +=
        dy
        * ((load(from.x + i * columns + column) - from.statistics[i]) * from.statistics[rows + i]);
      bias += dy;
    }
  weight = add_lanes(weight, shared);
  bias = add_lanes(bias, shared);
  if (threadIdx.y == 0 && column < columns) {
    parts[2 * blockIdx.y * columns + column] = weight;
    parts[(2 * blockIdx.y + 1) * columns + column] = bias;
  }
}

} // namespace

void operations::layer_norm(const tensor& input, affine with, tensor& output, tensor& statistics) {
  const auto rows = input.shape().rows();
  with_element(input.type(), "layer_norm", [&]<class T>(T) {
    const affine_pointers<T> pointers{elements<T>(with.weight), elements<T>(with.bias)};
    check(SLUICE_LAUNCH(layer_norm_kernel<T>, grid_for(rows), dim3(256), 0, stream_,
                        elements<T>(input), pointers, elements<T>(output),
                        elements<float>(statistics), rows, input.shape()[-1]),
          "layer_norm");
  });
}

void operations::layer_norm_again(const tensor& input, const tensor& statistics, affine with,
                                  tensor& output) {
  const auto rows = input.shape().rows();
  with_element(input.type(), "layer_norm", [&]<class T>(T) {
    const affine_pointers<T> pointers{elements<T>(with.weight), elements<T>(with.bias)};
    check(SLUICE_LAUNCH(layer_norm_again_kernel<T>, grid_for(rows), dim3(256), 0, stream_,
                        elements<T>(input), elements<float>(statistics), pointers,
                        elements<T>(output), rows, input.shape()[-1]),
          "layer_norm");
  });
}

void operations::layer_norm_backward(stream& on, const layer_norm_operands& from, tensor& input,
                                     tensor& affine) {
  const auto rows = input.shape().rows();
  const auto columns = input.shape()[-1];
  auto parts = on.allocate(dtype::float32, {row_parts(rows), 2, columns});
  with_element(input.type(), "layer_norm", [&]<class T>(T) {
    const backward_pointers<T> pointers{elements<T>(from.output_gradient), elements<T>(from.input),
                                        elements<float>(from.statistics), elements<T>(from.weight)};
    check(SLUICE_LAUNCH(layer_norm_input_gradient_kernel<T>, grid_for(rows), dim3(256), 0, stream_,
                        pointers, elements<T>(input), rows, columns),
          "layer_norm's backward");
    check(SLUICE_LAUNCH(layer_norm_affine_kernel<T>, sum_grid(rows, columns),
                        dim3(sum_columns, sum_lanes), 0, stream_, pointers, elements<float>(parts),
                        rows, columns),
          "layer_norm's backward");
  });
  check(SLUICE_LAUNCH(add_parts_kernel, blocks_for(2 * columns), dim3(256), 0, stream_,
                      elements<float>(parts), 2 * columns, row_parts(rows), elements<float>(affine),
                      false),
        "layer_norm's backward");
}

} // namespace sluice::kernels::cuda
