#include "kernels/ops/adamw.hpp"

#include <cmath>

#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

namespace {

void check(const adamw_operand& of) {
  const auto& value = of.value;
  require(of.gradient, value.type(), value.shape(), "adamw", "gradient");
  require(of.mean, value.type(), value.shape(), "adamw", "mean");
  require(of.squares, value.type(), value.shape(), "adamw", "squares");
}

void update(const adamw_operand& of, const adamw_settings& settings) {
  const auto count = static_cast<double>(settings.step);
  const double correction1 = 1 - std::pow(settings.beta1, count);
  const double correction2 = 1 - std::pow(settings.beta2, count);
  const double decay = of.decays ? settings.weight_decay : 0;
  with_float(of.value.type(), "adamw", [&]<class T>(T) {
    const auto keep = static_cast<T>(1 - settings.learning_rate * decay);
    const auto scale = static_cast<T>(settings.gradient_scale);
    const auto beta1 = static_cast<T>(settings.beta1);
    const auto beta2 = static_cast<T>(settings.beta2);
    const auto rest1 = static_cast<T>(1 - settings.beta1);
    const auto rest2 = static_cast<T>(1 - settings.beta2);
    const auto rate = static_cast<T>(settings.learning_rate / correction1);
    const auto root = static_cast<T>(1 / std::sqrt(correction2));
    const auto epsilon = static_cast<T>(settings.epsilon);
    T* x = of.value.data<T>();
    T* m = of.mean.data<T>();
    T* v = of.squares.data<T>();
    const T* dx = of.gradient.data<T>();
#pragma GCC ivdep // four different tensors
    for (std::int64_t i = 0, end = of.value.elements(); i < end; ++i) {
      const T g = dx[i] * scale;
      m[i] = beta1 * m[i] + rest1 * g;
      v[i] = beta2 * v[i] + rest2 * g * g;
      x[i] = x[i] * keep - rate * m[i] / (std::sqrt(v[i]) * root + epsilon);
    }
  });
}

} // namespace

void adamw(stream& on, std::span<const adamw_operand> all, const adamw_settings& settings) {
  for (const auto& each : all)
    check(each);
  if (auto* device = on.operations()) {
    device->adamw(all, settings);
    return;
  }
  for (const auto& each : all)
    update(each, settings);
}

} // namespace sluice::kernels::ops
