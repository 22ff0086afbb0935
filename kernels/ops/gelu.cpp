#include "kernels/ops/gelu.hpp"

#include "kernels/ops/math.hpp"
#include "kernels/ops/bfloat16.hpp"
#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

namespace {

template <class T>
constexpr T twice_root = static_cast<T>(1.5957691216057307L); // 2 sqrt(2 / pi)
template <class T>
constexpr T cubic = static_cast<T>(0.044715L);

template <class T>
T gate(T x) {
  return T{1} / (T{1} + exponential(-twice_root<T> * (x + cubic<T> * x * x * x)));
}

template <class T>
void forward(const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    y[i] = x[i] * gate(x[i]);
}

template <class T>
void backward(const T* dy, const T* x, T* dx, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T s = gate(x[i]);
    const T slope = twice_root<T> * (T{1} + 3 * cubic<T> * x[i] * x[i]);
    dx[i] = dy[i] * (s + x[i] * s * (T{1} - s) * slope);
  }
}

} // namespace

tensor gelu(stream& on, const tensor& input) {
  if (by_float(on, input))
    return rounded(on, gelu(on, widened(on, input)));
  auto output = on.allocate(input.type(), input.shape());
  if (auto* device = on.operations()) {
    device->gelu(input, output);
    return output;
  }
  with_float(input.type(), "gelu",
             [&]<class T>(T) { forward(input.data<T>(), output.data<T>(), input.elements()); });
  return output;
}

tensor gelu_backward(stream& on, const tensor& output_gradient, const tensor& input) {
  require(output_gradient, input.type(), input.shape(), "gelu", "the output's gradient");
  if (by_float(on, input))
    return rounded(on, gelu_backward(on, widened(on, output_gradient), widened(on, input)));
  auto gradient = on.allocate(input.type(), input.shape());
  if (auto* device = on.operations()) {
    device->gelu_backward(output_gradient, input, gradient);
    return gradient;
  }
  with_float(input.type(), "gelu", [&]<class T>(T) {
    backward(output_gradient.data<T>(), input.data<T>(), gradient.data<T>(), input.elements());
  });
  return gradient;
}

} // namespace sluice::kernels::ops
