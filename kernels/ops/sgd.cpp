#include "kernels/ops/sgd.hpp"

#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

void sgd(stream& on, tensor& value, const tensor& gradient, tensor& velocity,
         const sgd_settings& settings) {
  require(gradient, value.type(), value.shape(), "sgd", "gradient");
  const bool moves = settings.momentum != 0;
  if (moves)
    require(velocity, value.type(), value.shape(), "sgd", "velocity");
  if (auto* device = on.operations()) {
    device->sgd(value, gradient, velocity, settings);
    return;
  }
  with_float(value.type(), "sgd", [&]<class T>(T) {
    const auto rate = static_cast<T>(settings.learning_rate);
    const auto momentum = static_cast<T>(settings.momentum);
    const auto decay = static_cast<T>(settings.weight_decay);
    const auto scale = static_cast<T>(settings.gradient_scale);
    T* x = value.data<T>();
    const T* dx = gradient.data<T>();
    const auto end = value.elements();
    if (!moves) {
      for (std::int64_t i = 0; i < end; ++i)
        x[i] -= rate * (scale * dx[i] + decay * x[i]);
      return;
    }
    T* v = velocity.data<T>();
#pragma GCC ivdep // three different tensors
    for (std::int64_t i = 0; i < end; ++i) {
      v[i] = momentum * v[i] + (scale * dx[i] + decay * x[i]);
      x[i] -= rate * v[i];
    }
  });
}

} // namespace sluice::kernels::ops
