#include "kernels/ops/cast.hpp"

#include <algorithm>

#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

tensor cast(stream& on, const tensor& from, dtype to) {
  auto result = on.allocate(to, from.shape());
  if (auto* device = on.operations()) {
    device->cast(from, result);
    return result;
  }
  with_float(from.type(), "cast", [&]<class From>(From) {
    with_float(to, "cast", [&]<class To>(To) {
      std::ranges::transform(from.span<From>(), result.template span<To>().begin(),
                             [](From value) { return static_cast<To>(value); });
    });
  });
  return result;
}

} // namespace sluice::kernels::ops
