#include "kernels/cuda/check.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::cuda {

namespace {

struct sgd_numbers {
  float rate, momentum, decay, scale;
};

// Bound by memory: 12 bytes an element, 20 with momentum; expected at 85% of the bandwidth.
// velocity: null without momentum.
__global__ void __launch_bounds__(256)
  sgd_kernel(float* x, const float* dx, float* velocity, std::int64_t count, sgd_numbers with) {
  for (auto i = first_element(); i < count; i += element_stride()) {
    float step = with.scale * dx[i] + with.decay * x[i];
    if (velocity != nullptr) {
      step = with.momentum * velocity[i] + step;
      velocity[i] = step;
    }
    x[i] -= with.rate * step;
  }
}

} // namespace

void operations::sgd(tensor& value, const tensor& gradient, tensor& velocity,
                     const ops::sgd_settings& settings) {
  if (value.type() != dtype::float32)
    ops::refuse_type("sgd", value.type());
  const sgd_numbers with{
    static_cast<float>(settings.learning_rate), static_cast<float>(settings.momentum),
    static_cast<float>(settings.weight_decay), static_cast<float>(settings.gradient_scale)};
  check(SLUICE_LAUNCH(sgd_kernel, blocks_for(value.elements()), dim3(256), 0, stream_,
                      elements<float>(value), elements<float>(gradient),
                      settings.momentum != 0 ? elements<float>(velocity) : nullptr,
                      value.elements(), with),
        "sgd");
}

} // namespace sluice::kernels::cuda
