#include "kernels/ops/cross_entropy.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/ops/bfloat16.hpp"
#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/require.hpp"
#include "kernels/ops/softmax.hpp"

namespace sluice::kernels::ops {

namespace {

void check(const tensor& logits, const tensor& targets) {
  const auto rows = logits.shape().rows();
  if (logits.shape().rank() == 0 || targets.type() != dtype::int32 || targets.elements() != rows)
    throw std::invalid_argument(fmt::format("cross_entropy: {} targets of {} for logits {}",
                                            to_string(targets.shape()), name(targets.type()),
                                            to_string(logits.shape())));
  if (!targets.where()->is_host()) // there the kernel makes the loss NaN
    return;
  const auto classes = logits.shape()[-1];
  for (const auto target : targets.span<std::int32_t>())
    if (target != ignored_target && (target < 0 || target >= classes))
      throw std::out_of_range(
        fmt::format("cross_entropy: target {} among {} classes", target, classes));
}

/// Calls row_body(float row[classes], target) for each row, which is widened and rounded again.
template <class Body>
void for_each_bfloat16_row(stream& on, tensor& rows, const tensor& targets, Body row_body) {
  const auto classes = rows.shape()[-1];
  auto wide = on.allocate(dtype::float32, {classes});
  auto* row = rows.data<bfloat16>();
  for (const auto target : targets.span<std::int32_t>()) {
    std::transform(row, row + classes, wide.data<float>(), widen);
    row_body(wide.data<float>(), target);
    std::transform(wide.data<float>(), wide.data<float>() + classes, row, narrow);
    row += classes;
  }
}

/// The loss of a row, which becomes its softmax.
template <class T>
double row_loss(T* row, std::int64_t classes, std::int32_t target) {
  const T logit = target == ignored_target ? T{0} : row[target];
  const T log_sum = softmax_row(row, classes);
  return target == ignored_target ? 0 : static_cast<double>(log_sum) - static_cast<double>(logit);
}

template <class T>
void row_gradient(T* row, std::int64_t classes, std::int32_t target, T scale) {
  if (target == ignored_target) {
    std::fill_n(row, classes, T{0});
    return;
  }
  row[target] -= T{1};
  for (std::int64_t j = 0; j < classes; ++j)
    row[j] *= scale;
}

} // namespace

std::int64_t valid_targets(const tensor& targets) {
  const auto all = targets.span<std::int32_t>();
  return static_cast<std::int64_t>(all.size()) - std::count(all.begin(), all.end(), ignored_target);
}

tensor cross_entropy(stream& on, tensor& logits, const tensor& targets) {
  check(logits, targets);
  auto loss = on.allocate(dtype::float64, {});
  if (auto* device = on.operations()) {
    device->cross_entropy(on, logits, targets, loss);
    return loss;
  }
  const auto classes = logits.shape()[-1];
  double sum = 0;
  if (by_float(on, logits))
    for_each_bfloat16_row(on, logits, targets, [&](float* row, std::int32_t target) {
      sum += row_loss(row, classes, target);
    });
  else
    with_float(logits.type(), "cross_entropy", [&]<class T>(T) {
      T* row = logits.data<T>();
      for (const auto target : targets.span<std::int32_t>()) {
        sum += row_loss(row, classes, target);
        row += classes;
      }
    });
  loss.data<double>()[0] = sum;
  return loss;
}

void cross_entropy_backward(stream& on, tensor& probabilities, const tensor& targets,
                            double loss_scale) {
  check(probabilities, targets);
  if (auto* device = on.operations()) {
    device->cross_entropy_backward(probabilities, targets, loss_scale);
    return;
  }
  const auto classes = probabilities.shape()[-1];
  if (by_float(on, probabilities))
    return for_each_bfloat16_row(on, probabilities, targets, [&](float* row, std::int32_t target) {
      row_gradient(row, classes, target, static_cast<float>(loss_scale));
    });
  with_float(probabilities.type(), "cross_entropy", [&]<class T>(T) {
    const auto scale = static_cast<T>(loss_scale);
    T* row = probabilities.data<T>();
    for (const auto target : targets.span<std::int32_t>()) {
      row_gradient(row, classes, target, scale);
      row += classes;
    }
  });
}

} // namespace sluice::kernels::ops
