#pragma once

#include <span>
#include <string>
#include <vector>

#include "actors/plan/plan.hpp"
#include "actors/plan/simulate.hpp"

namespace sluice::bench {

/// A plan under a name of its own, beside the static order that it runs in without noise.
struct contender {
  std::string name;
  plan::plan rule;
  plan::plan fixed;
};

/// Every schedule that ships, and ZB-H1 with credits for twice as many activations.
std::vector<contender> contenders(std::int32_t stages, std::int32_t micro_batches,
                                  bool asynchronous);

/// A kind of noise.
struct noise_case {
  std::string name;
  plan::jitter noise = {};
  double slowest = 1; ///< one rank takes so many times as long, another one for each seed
};

/// Lognormal with sigma 0.1 and 0.3; a tenth of tasks 4x; one rank 1.3x slower.
std::span<const noise_case> noise_cases();

/// Conditions with one seed of a noise: both a plan and its static order see the same task times.
plan::conditions with_noise(plan::conditions under, const noise_case& in, std::uint64_t seed,
                            std::int32_t ranks);

/// The least of the spans of some steps of the real actors on emulated devices: what else the
/// machine does only ever makes them longer. Units: seconds.
double executed_span(const plan::plan& of, const plan::conditions& under, int steps);

} // namespace sluice::bench
