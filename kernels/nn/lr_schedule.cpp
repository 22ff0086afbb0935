#include "kernels/nn/lr_schedule.hpp"

#include <cmath>
#include <numbers>

namespace sluice::kernels::nn {

double lr_schedule::at(std::uint64_t step) const noexcept {
  if (step < warm_up_steps)
    return peak * static_cast<double>(step + 1) / static_cast<double>(warm_up_steps);
  if (after_warm_up == shape::constant)
    return peak;
  if (step >= total_steps)
    return floor;
  const double progress =
    static_cast<double>(step - warm_up_steps) / static_cast<double>(total_steps - warm_up_steps);
  return floor + (peak - floor) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

} // namespace sluice::kernels::nn
