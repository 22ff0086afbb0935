#include "kernels/cuda/check.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/reduce.hpp"
#include "kernels/cuda/sum_doubles.hpp"
#include "kernels/ops/cross_entropy.hpp"
#include "kernels/stream.hpp"

namespace sluice::kernels::cuda {

namespace {

/// The largest value so far, and the sum of exp(value - largest).
struct running_softmax {
  float top = -INFINITY;
  float sum = 0;

  __device__ void add(float value) {
    if (value > top) {
      sum *= __expf(top - value);
      top = value;
    }
    if (value != -INFINITY) // of which a lane may see nothing else: no share, but no NaN either
      sum += __expf(value - top);
  }
};

// A block a row, which goes over the vocabulary in pieces of 256, in place: once for maximum and
// sum together, once to write. Beside the logits it needs one float64 a row. Reads the logits twice
// and writes them once: expected at 80% of the bandwidth. A row with a NaN becomes NaN; a target
// outside the vocabulary makes the loss NaN.
template <class T>
__global__ void __launch_bounds__(256) cross_entropy_kernel(T* logits, const std::int32_t* targets,
                                                            double* losses, std::int64_t classes) {
  const std::int64_t row = blockIdx.x;
  T* x = logits + row * classes;
  const auto target = targets[row];
  const bool counts = target != ops::ignored_target;
  const bool known = target >= 0 && target < classes;
  const float wanted = known ? load(x + target) : NAN;
  running_softmax mine;
  for (std::int64_t j = threadIdx.x; j < classes; j += blockDim.x)
    mine.add(load(x + j));
  const float top = block_max(mine.top);
  const float sum = block_sum(mine.top == -INFINITY ? mine.sum : mine.sum * __expf(mine.top - top));
  const float share = 1 / sum;
  for (std::int64_t j = threadIdx.x; j < classes; j += blockDim.x)
    store(x + j, __expf(load(x + j) - top) * share);
  if (threadIdx.x == 0)
    losses[row] = counts ? static_cast<double>(top + logf(sum)) - static_cast<double>(wanted) : 0;
}

template <class T>
__global__ void __launch_bounds__(256)
  cross_entropy_backward_kernel(T* probabilities, const std::int32_t* targets, std::int64_t classes,
                                float scale) {
  const std::int64_t row = blockIdx.x;
  T* p = probabilities + row * classes;
  const auto target = targets[row];
  for (std::int64_t j = threadIdx.x; j < classes; j += blockDim.x)
    store(p + j, target == ops::ignored_target
                   ? 0.0F
                   : (load(p + j) - (j == target ? 1.0F : 0.0F)) * scale);
}

} // namespace

void operations::cross_entropy(stream& on, tensor& logits, const tensor& targets, tensor& loss) {
  const auto rows = logits.shape().rows();
  if (rows > 0) {
    auto losses = on.allocate(dtype::float64, {rows});
    with_element(logits.type(), "cross_entropy", [&]<class T>(T) {
      check(SLUICE_LAUNCH(cross_entropy_kernel<T>, dim3(static_cast<unsigned>(rows)), dim3(256), 0,
                          stream_, elements<T>(logits), elements<std::int32_t>(targets),
                          elements<double>(losses), logits.shape()[-1]),
            "cross_entropy");
    });
    sum_doubles(stream_, elements<double>(losses), rows, elements<double>(loss));
  } else {
    check(cudaMemsetAsync(loss.bytes_span().data(), 0, loss.bytes(), stream_), "cross_entropy");
  }
}

void operations::cross_entropy_backward(tensor& probabilities, const tensor& targets,
                                        double loss_scale) {
  const auto rows = probabilities.shape().rows();
  if (rows == 0)
    return;
  with_element(probabilities.type(), "cross_entropy", [&]<class T>(T) {
    check(SLUICE_LAUNCH(cross_entropy_backward_kernel<T>, dim3(static_cast<unsigned>(rows)),
                        dim3(256), 0, stream_, elements<T>(probabilities),
                        elements<std::int32_t>(targets), probabilities.shape()[-1],
                        static_cast<float>(loss_scale)),
          "cross_entropy's backward");
  });
}

} // namespace sluice::kernels::cuda
