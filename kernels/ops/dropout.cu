#include "kernels/cuda/check.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/ops/philox.hpp"

namespace sluice::kernels::cuda {

namespace {

struct mask_values {
  ops::random_key key;
  std::uint64_t first_sample;
  std::uint32_t threshold;
  float scale;
};

// The random words are the processor's, each of which takes ten rounds here: some 60 instructions
// an element. Expected at 60% of the bandwidth.
template <class T>
__global__ void __launch_bounds__(256) dropout_kernel(const T* from, T* to, std::int64_t per_sample,
                                                      std::int64_t count, mask_values mask) {
  for (auto i = first_element(); i < count; i += element_stride()) {
    const auto sample = static_cast<std::uint64_t>(i / per_sample);
    const auto call = ops::prepare_philox(mask.key, mask.first_sample + sample);
    const auto word = ops::philox_word(call, static_cast<std::uint64_t>(i % per_sample));
    store(to + i, word >= mask.threshold ? load(from + i) * mask.scale : 0.0F);
  }
}

} // namespace

void operations::dropout(const tensor& values, tensor& result, std::int64_t samples,
                         const ops::dropout_mask& mask) {
  if (samples == 0)
    return;
  const mask_values with{mask.key, static_cast<std::uint64_t>(mask.first_sample), mask.threshold(),
                         static_cast<float>(mask.scale())};
  with_element(values.type(), "dropout", [&]<class T>(T) {
    check(SLUICE_LAUNCH(dropout_kernel<T>, blocks_for(values.elements()), dim3(256), 0, stream_,
                        elements<T>(values), elements<T>(result), values.elements() / samples,
                        values.elements(), with),
          "dropout");
  });
}

} // namespace sluice::kernels::cuda
