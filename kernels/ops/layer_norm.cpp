#include "kernels/ops/layer_norm.hpp"

#include <cmath>

#include "kernels/ops/lanes.hpp"
#include "kernels/ops/bfloat16.hpp"
#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

namespace {

template <class T>
struct statistics {
  T mean;
  T reciprocal_deviation;
};

template <class T>
statistics<T> measure(const T* x, std::int64_t columns) {
  constexpr T epsilon = static_cast<T>(1e-5);
  const auto count = static_cast<T>(columns);
  const T mean = lane_sum<T>(columns, [x](std::int64_t j) { return x[j]; }) / count;
  const T squares = lane_sum<T>(columns, [x, mean](std::int64_t j) {
    const T difference = x[j] - mean;
    return difference * difference;
  });
  return {mean, T{1} / std::sqrt(squares / count + epsilon)};
}

// Called by both forwards, and not inlined, so that both give the same bits.
template <class T>
[[gnu::noinline]] void normalise(const T* x, statistics<T> s, const T* weight, const T* bias,
                                 std::span<T> y) {
  for (std::size_t j = 0; j < y.size(); ++j)
    y[j] = (x[j] - s.mean) * s.reciprocal_deviation * weight[j] + bias[j];
}

// With n = (x - mean) r and g = dy weight: dx = r (g - mean(g) - n mean(g n)).
template <class T>
void backward_row(const T* dy, const T* x, statistics<T> s, const T* weight, std::span<T> dx) {
  const auto columns = static_cast<std::int64_t>(dx.size());
  const auto count = static_cast<T>(columns);
  const T mean = s.mean;
  const T r = s.reciprocal_deviation;
  const T mean_g = lane_sum<T>(columns, [=](std::int64_t j) { return dy[j] * weight[j]; }) / count;
  const T mean_gn =
    lane_sum<T>(columns, [=](std::int64_t j) { return dy[j] * weight[j] * ((x[j] - mean) * r); })
    / count;
  for (std::int64_t j = 0; j < columns; ++j)
    dx[j] = r * (dy[j] * weight[j] - mean_g - (x[j] - mean) * r * mean_gn);
}

void check_affine(const tensor& input, const tensor& weight) {
  if (input.shape().rank() == 0)
    throw std::invalid_argument("layer_norm: a scalar has no rows");
  require(weight, input.type(), {input.shape()[-1]}, "layer_norm", "weight");
}

} // namespace

layer_norm_result layer_norm(stream& on, const tensor& input, const tensor& weight,
                             const tensor& bias) {
  check_affine(input, weight);
  require(bias, input.type(), weight.shape(), "layer_norm", "bias");
  if (by_float(on, input)) {
    auto wide = layer_norm(on, widened(on, input), widened(on, weight), widened(on, bias));
    return {rounded(on, wide.output), std::move(wide.statistics)};
  }
  const auto rows = input.shape().rows();
  const auto columns = input.shape()[-1];
  layer_norm_result result{on.allocate(input.type(), input.shape()),
                           on.allocate(accumulation_type(input.type()), {2, rows})};
  if (auto* device = on.operations()) {
    device->layer_norm(input, {weight, bias}, result.output, result.statistics);
    return result;
  }
  with_float(input.type(), "layer_norm", [&]<class T>(T) {
    auto* kept = result.statistics.template data<T>();
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* x = input.data<T>() + i * columns;
      const auto s = measure(x, columns);
      kept[i] = s.mean;
      kept[rows + i] = s.reciprocal_deviation;
      normalise(x, s, weight.data<T>(), bias.data<T>(),
                result.output.template span<T>().subspan(i * columns, columns));
    }
  });
  return result;
}

tensor layer_norm_again(stream& on, const tensor& input, const tensor& statistics_,
                        const tensor& weight, const tensor& bias) {
  check_affine(input, weight);
  if (by_float(on, input))
    return rounded(on, layer_norm_again(on, widened(on, input), statistics_, widened(on, weight),
                                        widened(on, bias)));
  const auto rows = input.shape().rows();
  const auto columns = input.shape()[-1];
  auto output = on.allocate(input.type(), input.shape());
  if (auto* device = on.operations()) {
    device->layer_norm_again(input, statistics_, {weight, bias}, output);
    return output;
  }
  with_float(input.type(), "layer_norm", [&]<class T>(T) {
    const T* kept = statistics_.data<T>();
    for (std::int64_t i = 0; i < rows; ++i)
      normalise(input.data<T>() + i * columns, statistics<T>{kept[i], kept[rows + i]},
                weight.data<T>(), bias.data<T>(),
                output.template span<T>().subspan(i * columns, columns));
  });
  return output;
}

layer_norm_gradients layer_norm_backward(stream& on, const tensor& output_gradient,
                                         const tensor& input, const tensor& statistics_,
                                         const tensor& weight) {
  check_affine(input, weight);
  require(output_gradient, input.type(), input.shape(), "layer_norm", "the output's gradient");
  if (by_float(on, input)) {
    auto wide = layer_norm_backward(on, widened(on, output_gradient), widened(on, input),
                                    statistics_, widened(on, weight));
    return {rounded(on, wide.input), std::move(wide.affine)};
  }
  const auto rows = input.shape().rows();
  const auto columns = input.shape()[-1];
  layer_norm_gradients result{on.allocate(input.type(), input.shape()),
                              on.zeros(accumulation_type(input.type()), {2, columns})};
  if (auto* device = on.operations()) {
    device->layer_norm_backward(on, {output_gradient, input, statistics_, weight}, result.input,
                                result.affine);
    return result;
  }
  with_float(input.type(), "layer_norm", [&]<class T>(T) {
    const T* kept = statistics_.data<T>();
    T* weight_gradient = result.affine.template data<T>();
    T* bias_gradient = weight_gradient + columns;
    for (std::int64_t i = 0; i < rows; ++i) {
      const statistics<T> s{kept[i], kept[rows + i]};
      const T* x = input.data<T>() + i * columns;
      const T* dy = output_gradient.data<T>() + i * columns;
      backward_row(dy, x, s, weight.data<T>(),
                   result.input.template span<T>().subspan(i * columns, columns));
      for (std::int64_t j = 0; j < columns; ++j) {
        weight_gradient[j] += dy[j] * ((x[j] - s.mean) * s.reciprocal_deviation);
        bias_gradient[j] += dy[j];
      }
    }
  });
  return result;
}

} // namespace sluice::kernels::ops
