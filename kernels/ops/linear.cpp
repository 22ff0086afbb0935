#include "kernels/ops/linear.hpp"

#include <algorithm>
#include <array>

#include "kernels/ops/bfloat16.hpp"
#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/gelu.hpp"
#include "kernels/ops/product.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

namespace {

shape with_last(const shape& extents, std::int64_t last) {
  if (extents.rank() == 0)
    throw std::invalid_argument("linear: a scalar has no rows");
  std::array<std::int64_t, shape::max_rank> changed{};
  std::copy(extents.extents().begin(), extents.extents().end(), changed.begin());
  changed[extents.rank() - 1] = last;
  return shape(std::span<const std::int64_t>(changed.data(), extents.rank()));
}

// Four rows at a time: the sums would otherwise be read and written once per row.
template <class T>
void add_rows(const T* from, T* sums, std::int64_t rows, std::int64_t columns) {
  std::int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const T* row = from + i * columns;
    for (std::int64_t j = 0; j < columns; ++j)
      sums[j] += (row[j] + row[columns + j]) + (row[2 * columns + j] + row[3 * columns + j]);
  }
  for (; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      sums[j] += from[i * columns + j];
}

} // namespace

tensor linear(stream& on, const tensor& input, const tensor& weight, const tensor& bias) {
  if (weight.shape().rank() != 2)
    throw std::invalid_argument("linear: the weight is " + to_string(weight.shape()));
  if (by_float(on, input))
    return rounded(on, linear(on, widened(on, input), widened(on, weight), widened(on, bias)));
  auto output = on.allocate(input.type(), with_last(input.shape(), weight.shape()[0]));
  product(on, matrix_of(input), matrix_of(weight).transposed(), matrix_of(output),
          write_mode::overwrite, bias);
  return output;
}

tensor linear_input_gradient(stream& on, const tensor& output_gradient, const tensor& weight) {
  if (by_float(on, output_gradient))
    return rounded(on,
                   linear_input_gradient(on, widened(on, output_gradient), widened(on, weight)));
  auto gradient =
    on.allocate(output_gradient.type(), with_last(output_gradient.shape(), weight.shape()[-1]));
  product(on, matrix_of(output_gradient), matrix_of(weight), matrix_of(gradient),
          write_mode::overwrite);
  return gradient;
}

void linear_weight_gradient(stream& on, const tensor& output_gradient, const tensor& input,
                            tensor& weight_gradient) {
  if (by_float(on, input))
    return linear_weight_gradient(on, widened(on, output_gradient), widened(on, input),
                                  weight_gradient);
  product(on, matrix_of(output_gradient).transposed(), matrix_of(input), matrix_of(weight_gradient),
          write_mode::accumulate);
}

void linear_weight_gradient(stream& on, const tensor& output_gradient, const tensor& input,
                            tensor& weight_gradient, tensor& bias_gradient) {
  if (by_float(on, input))
    return linear_weight_gradient(on, widened(on, output_gradient), widened(on, input),
                                  weight_gradient, bias_gradient);
  linear_weight_gradient(on, output_gradient, input, weight_gradient);
  const auto columns = output_gradient.shape()[-1];
  require(bias_gradient, accumulation_type(output_gradient.type()), {columns}, "linear",
          "the bias's gradient");
  if (auto* device = on.operations()) {
    device->add_rows(on, output_gradient, bias_gradient);
    return;
  }
  with_float(output_gradient.type(), "linear", [&]<class T>(T) {
    add_rows(output_gradient.data<T>(), bias_gradient.data<T>(), output_gradient.shape().rows(),
             columns);
  });
}

linear_gelu_result linear_gelu(stream& on, const tensor& input, const tensor& weight,
                               const tensor& bias) {
  if (auto* device = on.operations(); device != nullptr && input.elements() > 0) {
    const auto extents = with_last(input.shape(), weight.shape()[0]);
    require(weight, input.type(), {weight.shape()[0], input.shape()[-1]}, "linear", "weight");
    require(bias, input.type(), {weight.shape()[0]}, "linear", "bias");
    linear_gelu_result made{on.allocate(input.type(), extents), on.allocate(input.type(), extents)};
    if (device->product_gelu(on, {input, weight, bias}, made.inner, made.output))
      return made;
  }
  auto inner = linear(on, input, weight, bias);
  auto output = gelu(on, inner);
  return {std::move(output), std::move(inner)};
}

tensor linear_gelu_input_gradient(stream& on, const tensor& output_gradient, const tensor& weight,
                                  const tensor& inner) {
  if (auto* device = on.operations(); device != nullptr && inner.elements() > 0) {
    const auto extents = with_last(output_gradient.shape(), weight.shape()[-1]);
    require(weight, inner.type(), {output_gradient.shape()[-1], extents[-1]}, "linear", "weight");
    require(inner, output_gradient.type(), extents, "linear", "what went into the GELU");
    auto gradient = on.allocate(inner.type(), inner.shape());
    if (device->product_gelu_backward(on, output_gradient, weight, inner, gradient))
      return gradient;
  }
  return gelu_backward(on, linear_input_gradient(on, output_gradient, weight), inner);
}

} // namespace sluice::kernels::ops
