#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/measurement.hpp"

namespace sluice::bench {

/// What message-driven dispatch is worth under noise: each plan run by the rule, and the static
/// order that it has without noise, on the same task times.
struct jitter_options {
  std::int32_t stages = 16;
  std::int32_t micro_batches = 64;
  std::uint64_t first_seed = 1001; ///< not those that warm-up levels and the like were tuned on
  int seeds = 40;
  double patience = 0;                     ///< see plan::conditions
  std::vector<std::string> schedules = {}; ///< names as the lines have them; empty: all
};

/// One schedule under one noise, as means over the seeds; time over a rank's mean work.
struct jitter_line {
  std::string noise;
  std::string schedule;
  double fixed = 0; ///< the static order
  double rule = 0;

  double ratio() const { return fixed > 0 ? rule / fixed : 0; }
};

/// In simulation. Thread: uses all processors. Cost: a second for 40 simulations of P = 16, M = 64.
std::vector<jitter_line> simulate_jitter(const jitter_options& how);

/// With the real actors on emulated devices, with tasks of `task_seconds`: the same lines, without
/// the asynchronous schedules. Each seed's steps are run `repeats` times, and the fastest counts.
std::vector<jitter_line> execute_jitter(const jitter_options& how, double task_seconds,
                                        int repeats);

/// The bounds that the project sets itself, from such lines: value, and the bound as its peer.
std::vector<measurement> jitter_bounds(std::span<const jitter_line> lines);

std::string jitter_csv(std::span<const jitter_line> lines);

/// A picture: one panel for each noise, one row for each schedule, static order -> rule.
std::string jitter_svg(std::span<const jitter_line> lines, const std::string& title);

} // namespace sluice::bench
