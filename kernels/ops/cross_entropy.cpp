#include "kernels/ops/cross_entropy.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

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
  with_float(logits.type(), "cross_entropy", [&]<class T>(T) {
    double sum = 0;
    T* row = logits.data<T>();
    for (const auto target : targets.span<std::int32_t>()) {
      const T logit = target == ignored_target ? T{0} : row[target];
      const T log_sum = softmax_row(row, classes);
      if (target != ignored_target)
        sum += static_cast<double>(log_sum) - static_cast<double>(logit);
      row += classes;
    }
    loss.data<double>()[0] = sum;
  });
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
  with_float(probabilities.type(), "cross_entropy", [&]<class T>(T) {
    const auto scale = static_cast<T>(loss_scale);
    T* row = probabilities.data<T>();
    for (const auto target : targets.span<std::int32_t>()) {
      if (target == ignored_target) {
        std::fill_n(row, classes, T{0});
      } else {
        row[target] -= T{1};
        for (std::int64_t j = 0; j < classes; ++j)
          row[j] *= scale;
      }
      row += classes;
    }
  });
}

} // namespace sluice::kernels::ops
