#pragma once

#include <cstdint>

namespace sluice::kernels::nn {

/// The learning rate of each step: a pure function, so that a resumed run continues exactly.
///
///   peak    _,-'''-.,
///         /          ''-.,
///       /                 '-.,___ floor
///     0 | warm-up |   cosine    | after total_steps
struct lr_schedule {
  enum class shape : std::uint8_t { constant, cosine };

  double peak = 1e-3;
  double floor = 0; ///< of the cosine
  std::uint64_t warm_up_steps = 0;
  std::uint64_t total_steps = 0; ///< the cosine's end, warm-up included
  shape after_warm_up = shape::constant;

  /// step counts from 0; the first step of a warm-up of N has peak / N, the N-th has peak.
  double at(std::uint64_t step) const noexcept;
};

} // namespace sluice::kernels::nn
