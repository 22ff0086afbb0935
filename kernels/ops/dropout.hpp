#pragma once

#include <cstdint>

#include "kernels/ops/random.hpp"
#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// Which elements one dropout drops. Nothing is stored: the backward draws the same mask again.
struct dropout_mask {
  double probability = 0; ///< of being dropped, in [0, 1); 0 switches dropout off
  random_key key;
  std::int64_t first_sample = 0; ///< the sample that row 0 of the outermost dimension is

  bool active() const noexcept { return probability > 0; }
  /// What the elements that stay are multiplied by.
  double scale() const noexcept { return 1 / (1 - probability); }
  /// An element whose random word is below this is dropped.
  std::uint32_t threshold() const noexcept {
    return static_cast<std::uint32_t>(probability * 4294967296.0);
  }
};

/// Dropout, and its own backward: elements dropped or multiplied by mask.scale().
///
/// Shapes: values [samples, ...], result the same. Works in place where `values` is the only
/// handle; returns `values` itself when the mask is not active.
/// Errors: std::invalid_argument for integers or a probability outside [0, 1).
/// Source: Srivastava et al., Dropout (2014), scaled at training time.
tensor dropout(stream& on, tensor values, const dropout_mask& mask);

} // namespace sluice::kernels::ops
