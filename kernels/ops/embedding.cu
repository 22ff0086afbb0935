#include "kernels/cuda/check.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/reduce.hpp"

namespace sluice::kernels::cuda {

namespace {

struct table {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t length; ///< of a sequence
};

// A block a position. Bound by memory: reads two rows and writes one, expected at 80%. An id
// outside the vocabulary gives NaN, which ends in a step that is skipped: the processor refuses
// such ids, but here nobody waits to look at them.
template <class T>
__global__ void __launch_bounds__(256) embedding_kernel(const std::int32_t* ids, const T* tokens,
                                                        const T* positions, T* output, table of) {
  const std::int64_t i = blockIdx.x;
  const std::int64_t id = ids[i];
  const bool known = id >= 0 && id < of.rows;
  const T* position = positions + i % of.length * of.columns;
  for (std::int64_t j = threadIdx.x; j < of.columns; j += blockDim.x)
    store(output + i * of.columns + j,
          known ? load(tokens + id * of.columns + j) + load(position + j) : NAN);
}

// A block for each position. The block of the first position that holds a token adds the gradients
// of all its positions, in their order: no atomics, and the processor's sums, bit for bit. The
// search reads count^2 / 2 ids, from the cache.
template <class T>
__global__ void __launch_bounds__(256)
  token_gradient_kernel(const std::int32_t* ids, std::int64_t count, const T* dy, float* gradient,
                        table of) {
  const std::int64_t mine = blockIdx.x;
  const auto id = ids[mine];
  if (id < 0 || id >= of.rows)
    return;
  int seen = 0;
  for (std::int64_t i = threadIdx.x; i < mine; i += blockDim.x)
    seen |= ids[i] == id;
  if (block_sum(seen) > 0)
    return;
  for (std::int64_t j = threadIdx.x; j < of.columns; j += blockDim.x) {
    float sum = gradient[id * of.columns + j];
    for (auto i = mine; i < count; ++i)
      if (ids[i] == id)
        sum += load(dy + i * of.columns + j);
    gradient[id * of.columns + j] = sum;
  }
}

// A block for each place in the sequence; samples are added in their order.
template <class T>
__global__ void __launch_bounds__(256)
  position_gradient_kernel(const T* dy, std::int64_t samples, float* gradient, table of) {
  const std::int64_t place = blockIdx.x;
  for (std::int64_t j = threadIdx.x; j < of.columns; j += blockDim.x) {
    float sum = gradient[place * of.columns + j];
    for (std::int64_t sample = 0; sample < samples; ++sample)
      sum += load(dy + (sample * of.length + place) * of.columns + j);
    gradient[place * of.columns + j] = sum;
  }
}

} // namespace

void operations::embedding(const tensor& ids, const tensor& tokens, const tensor& positions,
                           tensor& output) {
  if (ids.elements() == 0)
    return;
  const table of{tokens.shape()[0], tokens.shape()[1], ids.shape()[1]};
  with_element(tokens.type(), "embedding", [&]<class T>(T) {
    check(SLUICE_LAUNCH(embedding_kernel<T>, dim3(static_cast<unsigned>(ids.elements())), dim3(256),
                        0, stream_, elements<std::int32_t>(ids), elements<T>(tokens),
                        elements<T>(positions), elements<T>(output), of),
          "embedding");
  });
}

void operations::embedding_backward(const tensor& output_gradient, const tensor& ids,
                                    tensor& tokens_gradient, tensor& positions_gradient) {
  if (ids.elements() == 0)
    return;
  const table of{tokens_gradient.shape()[0], tokens_gradient.shape()[1], ids.shape()[1]};
  with_element(output_gradient.type(), "embedding", [&]<class T>(T) {
    check(SLUICE_LAUNCH(token_gradient_kernel<T>, dim3(static_cast<unsigned>(ids.elements())),
                        dim3(256), 0, stream_, elements<std::int32_t>(ids), ids.elements(),
                        elements<T>(output_gradient), elements<float>(tokens_gradient), of),
          "embedding's backward");
    check(SLUICE_LAUNCH(position_gradient_kernel<T>, dim3(static_cast<unsigned>(of.length)),
                        dim3(256), 0, stream_, elements<T>(output_gradient), ids.shape()[0],
                        elements<float>(positions_gradient), of),
          "embedding's backward");
  });
}

} // namespace sluice::kernels::cuda
