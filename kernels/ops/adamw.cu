#include <cmath>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/tensor_table.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::cuda {

namespace {

struct adamw_pointers {
  float* x;
  const float* dx;
  float* m;
  float* v;
  float keep; ///< 1 - learning rate * weight decay
};

struct adamw_numbers {
  float scale, beta1, beta2, rest1, rest2, rate, root, epsilon;
};

using adamw_table = tensor_table<adamw_pointers, 4>;
static_assert(sizeof(adamw_table) + sizeof(adamw_numbers) <= argument_bytes);

// Bound by memory: 28 bytes an element, expected at 85% of the bandwidth.
__global__ void __launch_bounds__(256) adamw_kernel(const adamw_table table, adamw_numbers with) {
  const auto piece = piece_of(table, static_cast<std::int32_t>(blockIdx.x));
  const auto& of = table.entries[piece.entry].of;
  for (auto i = piece.begin + threadIdx.x; i < piece.end; i += blockDim.x) {
    const float g = of.dx[i] * with.scale;
    const float m = with.beta1 * of.m[i] + with.rest1 * g;
    const float v = with.beta2 * of.v[i] + with.rest2 * g * g;
    of.m[i] = m;
    of.v[i] = v;
    of.x[i] = of.x[i] * of.keep - with.rate * m / (sqrtf(v) * with.root + with.epsilon);
  }
}

} // namespace

void operations::adamw(std::span<const ops::adamw_operand> all,
                       const ops::adamw_settings& settings) {
  const auto count = static_cast<double>(settings.step);
  const double correction1 = 1 - std::pow(settings.beta1, count);
  const double correction2 = 1 - std::pow(settings.beta2, count);
  const adamw_numbers with{static_cast<float>(settings.gradient_scale),
                           static_cast<float>(settings.beta1),
                           static_cast<float>(settings.beta2),
                           static_cast<float>(1 - settings.beta1),
                           static_cast<float>(1 - settings.beta2),
                           static_cast<float>(settings.learning_rate / correction1),
                           static_cast<float>(1 / std::sqrt(correction2)),
                           static_cast<float>(settings.epsilon)};
  const auto element = [&](std::size_t i) {
    const auto& of = all[i];
    if (of.value.type() != dtype::float32)
      ops::refuse_type("adamw", of.value.type());
    const double decay = of.decays ? settings.weight_decay : 0;
    const adamw_pointers pointers{elements<float>(of.value), elements<float>(of.gradient),
                                  elements<float>(of.mean), elements<float>(of.squares),
                                  static_cast<float>(1 - settings.learning_rate * decay)};
    return std::pair(pointers, of.value.elements());
  };
  for_each_table<adamw_table>(all.size(), element, [&](const adamw_table& table, std::size_t) {
    if (table.pieces > 0)
      check(SLUICE_LAUNCH(adamw_kernel, dim3(static_cast<unsigned>(table.pieces)), dim3(256), 0,
                          stream_, table, with),
            "adamw");
  });
}

} // namespace sluice::kernels::cuda
