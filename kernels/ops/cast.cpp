#include "kernels/ops/cast.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "kernels/ops/bfloat16.hpp"
#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

namespace {

template <class From, class To>
To convert(From value) {
  if constexpr (std::is_same_v<From, bfloat16>)
    return convert<float, To>(widen(value));
  else if constexpr (std::is_same_v<To, bfloat16>)
    return narrow(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

template <class Body>
void with_floating(dtype type, Body&& body) {
  switch (type) {
  case dtype::float32:
    return body(float{});
  case dtype::float64:
    return body(double{});
  case dtype::bfloat16:
    return body(bfloat16{});
  default:
    throw std::invalid_argument(
      fmt::format("cast: elements of {}, expected F32, F64 or BF16", name(type)));
  }
}

void convert_elements(const tensor& from, tensor& to) {
  with_floating(from.type(), [&]<class From>(From) {
    with_floating(to.type(), [&]<class To>(To) {
      const auto source = from.span<From>();
      auto target = to.span<To>();
      for (std::size_t i = 0; i < source.size(); ++i)
        target[i] = convert<From, To>(source[i]);
    });
  });
}

} // namespace

tensor cast(stream& on, const tensor& from, dtype to) {
  auto result = on.allocate(to, from.shape());
  if (auto* device = on.operations())
    device->cast(from, result);
  else
    convert_elements(from, result);
  return result;
}

void round_all(stream& on, std::span<const rounding> all) {
  for (const auto& each : all) {
    require(each.from, dtype::float32, each.to.shape(), "rounding", "a tensor");
    require(each.to, dtype::bfloat16, each.to.shape(), "rounding", "a result");
  }
  if (auto* device = on.operations()) {
    device->round_all(all);
    return;
  }
  for (const auto& each : all)
    convert_elements(each.from, each.to);
}

} // namespace sluice::kernels::ops
