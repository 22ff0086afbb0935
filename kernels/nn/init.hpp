#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/tensor.hpp"

namespace sluice::kernels::nn {

/// How a parameter starts.
struct initial_value {
  enum class kind : std::uint8_t { zeros, ones, normal };
  kind what = kind::zeros;
  double deviation = 0; ///< of the normal distribution, whose mean is 0
};

constexpr initial_value zeros() noexcept {
  return {initial_value::kind::zeros, 0};
}
constexpr initial_value ones() noexcept {
  return {initial_value::kind::ones, 0};
}
constexpr initial_value normal(double deviation) noexcept {
  return {initial_value::kind::normal, deviation};
}

/// Fills `value` with numbers that depend on (seed, parameter name, element) alone: Philox words,
/// by Box and Muller's method in float64, rounded last (to bfloat16 by way of float32).
/// Errors: std::invalid_argument for integers.
void fill_initial(tensor& value, initial_value how, std::uint64_t seed, std::string_view name);

} // namespace sluice::kernels::nn
