#include "kernels/ops/cast.hpp"

#include <bit>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/ops/device_operations.hpp"

namespace sluice::kernels::ops {

namespace {

float widen(bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// The upper half, one more where the lower half is more than half of it, or half and it is odd.
bfloat16 narrow(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) // stays one: rounding could make an infinity of it
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

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

} // namespace

tensor cast(stream& on, const tensor& from, dtype to) {
  auto result = on.allocate(to, from.shape());
  if (auto* device = on.operations()) {
    device->cast(from, result);
    return result;
  }
  with_floating(from.type(), [&]<class From>(From) {
    with_floating(to, [&]<class To>(To) {
      const auto source = from.span<From>();
      auto target = result.span<To>();
      for (std::size_t i = 0; i < source.size(); ++i)
        target[i] = convert<From, To>(source[i]);
    });
  });
  return result;
}

} // namespace sluice::kernels::ops
