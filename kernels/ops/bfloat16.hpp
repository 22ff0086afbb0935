#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/ops/cast.hpp"

// bfloat16 on the processor: operations widen what they read to float32, compute as they do with
// that, and round once, at the end. So do the kernels of GPUs.

namespace sluice::kernels::ops {

inline float widen(bfloat16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// The upper half, one more where the lower half is more than half of it, or half and it is odd.
inline bfloat16 narrow(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) // stays one: rounding could make an infinity of it
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// Whether an operation on such an operand is done by way of float32.
inline bool by_float(const stream& on, const tensor& operand) noexcept {
  return operand.type() == dtype::bfloat16 && on.operations() == nullptr;
}

inline tensor widened(stream& on, const tensor& from) {
  return from ? cast(on, from, dtype::float32) : tensor{};
}

inline tensor rounded(stream& on, const tensor& from) {
  return cast(on, from, dtype::bfloat16);
}

} // namespace sluice::kernels::ops
