#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/plan/make_plan.hpp"
#include "actors/plan/simulate.hpp"
#include "cli/train_options.hpp"

namespace sluice::cli {

/// What `sluice plan` was asked for.
struct plan_options {
  std::string schedule = "1f1b";
  std::string plan_file; ///< a table of actions in place of a schedule
  std::int32_t stages = 0;
  std::int32_t micro_batches = 0;
  std::int32_t chunks = 0;
  std::string credits = "own"; ///< or a number, or "auto"
  std::int32_t receive_slots = 0;
  double forward = 1;
  double backward = 1;
  double weight = 1;
  double update = 0;
  double link_latency = 0;
  double link_bandwidth = 0;
  double message_bytes = 0;
  double activation_bytes = 0; ///< of one micro-batch in one whole stage
  std::string jitter = "none";
  std::vector<std::string> slow_ranks; ///< "2:1.3"
  std::uint64_t seed = 1;
  std::int32_t look_ahead = 0;
  double patience = 0;
  double dispatch_time = 0;
  std::vector<std::string> compare;
  std::vector<std::string> memory; ///< of all devices, or of each
  std::string profile;
  std::string model;          ///< to measure in place of a profile
  recipe measured;            ///< its other options
  std::string device = "cpu"; ///< on which it is measured
  std::string csv;
  std::string svg;
  std::string json;
  std::int32_t columns = 160;
  bool colours = false;

  /// Errors: usage_error for what is no schedule, number or noise.
  plan::plan make(const std::string& schedule_name) const;
  plan::conditions conditions_for(const plan::plan& of) const;

  /// How many times as long each rank takes; empty if none is slow.
  std::vector<double> slowness(std::int32_t ranks) const;

  /// Bytes of each rank's device; empty if no memory is given.
  std::vector<double> memories(std::int32_t ranks) const;
};

/// "lognormal/0.3", "slow/0.1/4" (a tenth of tasks takes four times as long) or "none".
/// Errors: usage_error.
plan::jitter parse_jitter(const std::string& text);

} // namespace sluice::cli
