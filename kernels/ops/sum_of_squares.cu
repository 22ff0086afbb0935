#include "kernels/cuda/check.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/reduce.hpp"
#include "kernels/cuda/sum_doubles.hpp"
#include "kernels/stream.hpp"

namespace sluice::kernels::cuda {

namespace {

// Blocks of 256 threads, as many as the number of elements asks for, so that the order of all sums
// depends on that alone. Reads each element once: expected at 80% of the bandwidth.
template <class T>
__global__ void __launch_bounds__(256)
  square_parts_kernel(const T* values, std::int64_t count, double* parts) {
  double sum = 0;
  for (auto i = first_element(); i < count; i += element_stride()) {
    const double value = load(values + i);
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0)
    parts[blockIdx.x] = sum;
}

} // namespace

/// One block; also used for the losses of rows.
__global__ void __launch_bounds__(256)
  sum_doubles_kernel(const double* parts, std::int64_t count, double* sum) {
  double mine = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x)
    mine += parts[i];
  mine = block_sum(mine);
  if (threadIdx.x == 0)
    *sum = mine;
}

void sum_doubles(cudaStream_t on, const double* parts, std::int64_t count, double* sum) {
  check(SLUICE_LAUNCH(sum_doubles_kernel, dim3(1), dim3(256), 0, on, parts, count, sum), "a sum");
}

void operations::sum_of_squares(stream& on, const tensor& values, tensor& sums,
                                std::int64_t place) {
  const auto blocks = blocks_for(values.elements() / 8);
  auto parts = on.allocate(dtype::float64, {static_cast<std::int64_t>(blocks.x)});
  with_element(values.type(), "sum_of_squares", [&]<class T>(T) {
    check(SLUICE_LAUNCH(square_parts_kernel<T>, blocks, dim3(256), 0, stream_, elements<T>(values),
                        values.elements(), elements<double>(parts)),
          "sum_of_squares");
  });
  sum_doubles(stream_, elements<double>(parts), blocks.x, elements<double>(sums) + place);
}

} // namespace sluice::kernels::cuda
