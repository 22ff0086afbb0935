#pragma once

#include <span>

#include "actors/plan/plan.hpp"

namespace sluice::plan {

/// Raises each rank's credits to what its memory holds: extra activations absorb jitter. Results do
/// not change, since the lanes are fixed. A rank with a fixed order keeps its credits: it has no
/// use for more.
///
/// `activation_bytes` is by chunk, `budget_bytes` by rank: what is left for activations.
/// Errors: plan_error, naming rank and bytes, where the plan's own credits do not fit.
void fit_credits(plan& of, std::span<const double> activation_bytes,
                 std::span<const double> budget_bytes);

} // namespace sluice::plan
