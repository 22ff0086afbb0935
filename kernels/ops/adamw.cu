#include <cmath>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::cuda {

namespace {

struct adamw_numbers {
  float keep, scale, beta1, beta2, rest1, rest2, rate, root, epsilon;
};

// Bound by memory: 28 bytes an element, expected at 85% of the bandwidth.
__global__ void __launch_bounds__(256) adamw_kernel(float* x, const float* dx, float* m, float* v,
                                                    std::int64_t count, adamw_numbers with) {
  for (auto i = first_element(); i < count; i += element_stride()) {
    const float g = dx[i] * with.scale;
    m[i] = with.beta1 * m[i] + with.rest1 * g;
    v[i] = with.beta2 * v[i] + with.rest2 * g * g;
    x[i] = x[i] * with.keep - with.rate * m[i] / (sqrtf(v[i]) * with.root + with.epsilon);
  }
}

} // namespace

void operations::adamw(tensor& value, const tensor& gradient, ops::adamw_state state,
                       const ops::adamw_settings& settings) {
  if (value.type() != dtype::float32)
    ops::refuse_type("adamw", value.type());
  const auto count = static_cast<double>(settings.step);
  const double correction1 = 1 - std::pow(settings.beta1, count);
  const double correction2 = 1 - std::pow(settings.beta2, count);
  const adamw_numbers with{static_cast<float>(1 - settings.learning_rate * settings.weight_decay),
                           static_cast<float>(settings.gradient_scale),
                           static_cast<float>(settings.beta1),
                           static_cast<float>(settings.beta2),
                           static_cast<float>(1 - settings.beta1),
                           static_cast<float>(1 - settings.beta2),
                           static_cast<float>(settings.learning_rate / correction1),
                           static_cast<float>(1 / std::sqrt(correction2)),
                           static_cast<float>(settings.epsilon)};
  check(SLUICE_LAUNCH(adamw_kernel, blocks_for(value.elements()), dim3(256), 0, stream_,
                      elements<float>(value), elements<float>(gradient),
                      elements<float>(state.mean), elements<float>(state.squares), value.elements(),
                      with),
        "adamw");
}

} // namespace sluice::kernels::cuda
