#include "kernels/ops/sum_of_squares.hpp"

#include "kernels/ops/bfloat16.hpp"
#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/lanes.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

double sum_of_squares(stream& on, const tensor& values) {
  if (on.operations() != nullptr)
    return sums_of_squares(on, std::span(&values, 1)).front();
  if (by_float(on, values))
    return sum_of_squares(on, widened(on, values));
  return with_float(values.type(), "sum_of_squares", [&]<class T>(T) {
    const T* x = values.data<T>();
    return lane_sum<double>(values.elements(), [x](std::int64_t i) {
      const double value = x[i];
      return value * value;
    });
  });
}

std::vector<double> sums_of_squares(stream& on, std::span<const tensor> values) {
  std::vector<double> sums;
  if (values.empty())
    return sums;
  auto* device = on.operations();
  if (device == nullptr) {
    for (const auto& each : values)
      sums.push_back(sum_of_squares(on, each));
    return sums;
  }
  for (const auto& each : values)
    require(each, values.front().type(), each.shape(), "sum_of_squares", "a tensor");
  auto results = on.allocate(dtype::float64, {static_cast<std::int64_t>(values.size())});
  device->sums_of_squares(on, values, results);
  sums.resize(values.size());
  on.where().download(sums.data(), results.bytes_span().data(), results.bytes());
  return sums;
}

} // namespace sluice::kernels::ops
