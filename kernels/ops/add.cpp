#include "kernels/ops/add.hpp"

#include "kernels/ops/bfloat16.hpp"
#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

tensor add(stream& on, const tensor& left, const tensor& right) {
  require(right, left.type(), left.shape(), "add", "the right operand");
  if (by_float(on, left))
    return rounded(on, add(on, widened(on, left), widened(on, right)));
  auto sum = on.allocate(left.type(), left.shape());
  if (auto* device = on.operations()) {
    device->add(left, right, sum);
    return sum;
  }
  with_float(left.type(), "add", [&]<class T>(T) {
    const T* a = left.data<T>();
    const T* b = right.data<T>();
    T* c = sum.data<T>();
    for (std::int64_t i = 0, end = left.elements(); i < end; ++i)
      c[i] = a[i] + b[i];
  });
  return sum;
}

void add_into(stream& on, tensor& to, const tensor& what) {
  require(what, to.type(), to.shape(), "add", "what is added");
  if (by_float(on, to)) {
    const auto sum = add(on, widened(on, to), widened(on, what));
    const rounding result{sum, to};
    return round_all(on, std::span(&result, 1));
  }
  if (auto* device = on.operations()) {
    device->add(to, what, to);
    return;
  }
  with_float(to.type(), "add", [&]<class T>(T) {
    const T* from = what.data<T>();
    T* into = to.data<T>();
    for (std::int64_t i = 0, end = to.elements(); i < end; ++i)
      into[i] += from[i];
  });
}

} // namespace sluice::kernels::ops
