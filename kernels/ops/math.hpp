#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice::kernels::ops {

/// e^x within 2 units in the last place, as straight-line code that becomes vector code.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its polynomial, 2^n by its bits. From 88.37
/// on it is infinity, below -87 it stays at 2e-38, NaN stays NaN.
/// Source: the coefficients are those of Cephes' expf (Moshier 1992).
inline float exponential(float x) noexcept {
  constexpr float largest = 88.37F;               // beyond, 2^n has no bits
  constexpr float round_to_integer = 12582912.0F; // 1.5 * 2^23: adding it drops the fraction
  float bounded = x < -87.0F ? -87.0F : x;
  bounded = bounded > largest ? largest : bounded;
  const float shifted = bounded * 1.44269504088896341F + round_to_integer;
  const float n = shifted - round_to_integer;
  float r = bounded - n * 0.693359375F;
  r = r + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const auto exponent = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U;
  const float y = p * std::bit_cast<float>(exponent);
  return x > largest ? std::numeric_limits<float>::infinity() : y;
}

/// For checks.
inline double exponential(double x) noexcept {
  return std::exp(x);
}

} // namespace sluice::kernels::ops
