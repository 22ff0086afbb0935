#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/plan/check.hpp"
#include "actors/plan/plan.hpp"
#include "actors/stress/small_model.hpp"
#include "net/transfer.hpp"

namespace sluice::stress {

/// How long things take beyond what they take anyway. Each is at most so long, drawn for each task
/// or transfer by its own name, so that a replay gives each the same time in whatever order.
struct delays {
  std::chrono::microseconds task{0};
  std::chrono::microseconds latency{0};    ///< also lets transfers overtake each other
  std::chrono::microseconds completion{0}; ///< until the channel gives the sender's buffer back
  bool some_slow = false;                  ///< one task in eight takes eight times as long
};

/// One stress trial as data: what runs, on what channels, under which timing.
struct trial {
  std::uint64_t seed = 0;
  plan::plan plan = {};
  plan::verdict verdict = {}; ///< of plan::check
  small_model model = {};
  std::vector<std::size_t> cut = {};
  std::vector<std::int64_t> samples = {}; ///< by micro-batch
  bool recompute = false;
  bool detached = true;        ///< a thread for each stage
  bool loopback = true;        ///< with the plan's receive slots; or handed over within the process
  bool then_evaluates = false; ///< and predicts, after its steps
  delays times = {};

  std::chrono::nanoseconds task_time(std::int32_t rank, const plan::task& which, bool split) const;
  std::chrono::microseconds latency(const net::transfer& what) const;
  std::chrono::microseconds completion(const net::transfer& what) const;
};

/// Optimizer steps of a trial.
inline constexpr int steps = 2;

/// Seeds of trials have so many bits, so that every program that reads JSON reads them whole.
inline constexpr int seed_bits = 48;

/// The seed of a run's trial.
std::uint64_t trial_seed(std::uint64_t run, std::uint64_t index);

/// The trial of a seed: the same on every machine.
trial make_trial(std::uint64_t seed);

/// A trial of a given plan, everything else by the seed.
trial make_trial(std::uint64_t seed, plan::plan of);

/// One line: the plan, the model, the channels, the times.
std::string to_string(const trial& of);

/// The order in which a plan's lanes sum the gradients of the micro-batches in a part, on a route.
std::vector<std::int32_t> sum_order(const plan::plan& of, std::int32_t route, std::int32_t part);

} // namespace sluice::stress
