#include "kernels/ops/sum_of_squares.hpp"

#include "kernels/ops/lanes.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

double sum_of_squares(stream&, const tensor& values) {
  return with_float(values.type(), "sum_of_squares", [&]<class T>(T) {
    const T* x = values.data<T>();
    return lane_sum<double>(values.elements(), [x](std::int64_t i) {
      const double value = x[i];
      return value * value;
    });
  });
}

} // namespace sluice::kernels::ops
