#pragma once

#include <random>

#include "actors/plan/plan.hpp"
#include "actors/plan/simulate.hpp"

namespace sluice::plan {

/// How large random plans become, and what may be in them.
struct random_limits {
  std::int32_t stages = 6;
  std::int32_t micro_batches = 10;
  std::int32_t chunks = 3; ///< a rank, where the schedule leaves it free
  bool asynchronous = true;
  bool skips = true;
};

/// A plan of sound shape, and otherwise anything: a shipped schedule, its lanes often with entries
/// swapped, and credits, warm-up levels, stand-ins and receive slots at random. About half can
/// finish. The same on every machine for the same generator.
plan random_plan(std::mt19937_64& random, const random_limits& within = {});

/// A world for it: uneven chunks, links, noise, dispatch ahead.
conditions random_timing(const plan& of, std::mt19937_64& random);

} // namespace sluice::plan
