#pragma once

#include <cstdint>
#include <vector>

#include "actors/plan/plan.hpp"

namespace sluice::plan {

// Units: times are doubles in one unit that the caller chooses (slots, seconds); bandwidths are
// bytes in that unit.

/// How long the tasks of a chunk take. A backward that is not split takes backward + weight.
struct task_times {
  double forward = 1;
  double backward = 1;
  double weight = 1;
  double update = 0;
};

/// What a message between two ranks costs. Messages of a link follow one another in its bandwidth;
/// their latencies overlap.
struct link {
  double latency = 0;
  double bandwidth = 0;       ///< 0: unlimited
  bool overlaps_tasks = true; ///< or the sender stands still until the message is out
};

/// One link that differs from the others.
struct odd_link {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  link costs = {};
};

/// Noise on task times, drawn for each task by its own number: a task keeps its factor in whatever
/// order the tasks run, so that two plans or orders can be compared under the same noise.
struct jitter {
  double sigma = 0;       ///< of a lognormal factor whose mean is 1
  double slow_share = 0;  ///< this share of tasks ...
  double slow_factor = 1; ///< ... takes so many times as long
  std::uint64_t seed = 1;
};

/// The world in which a plan is simulated.
struct conditions {
  task_times stage = {};                 ///< of one of P equal stages; a chunk takes its share
  std::vector<task_times> by_chunk = {}; ///< if not empty: of each chunk itself
  std::vector<double> slowness = {};     ///< if not empty: a factor for each rank
  link between = {};
  std::vector<odd_link> odd_links = {};
  double message_bytes = 0;
  std::vector<double> output_bytes = {}; ///< if not empty: of each part, in place of message_bytes
  jitter noise = {};
  std::int32_t look_ahead = 0; ///< of ranks whose plan leaves that to the device
  double dispatch_time = 0;    ///< of the host, for each task it enqueues
  /// How long an idle rank waits for the input that it wants before it takes a stand-in: see
  /// patient_for(). The stage actors have pipeline_options::patience.
  double patience = 0;
  bool keep_tasks = true; ///< off: only the numbers, for very large plans
};

/// How long a task takes under these conditions. `split`: whether a backward leaves its weight
/// gradient to a task of its own. The simulator's clock and emulated devices both ask this.
double task_duration(const plan& of, const conditions& under, std::int32_t rank, const task& which,
                     bool split);

struct timed_task {
  std::int32_t rank = 0;
  task what = {};
  double start = 0;
  double end = 0;
};

struct rank_numbers {
  double work = 0; ///< sum of its tasks
  double first_start = 0;
  double last_end = 0;
  std::int32_t peak_activations = 0; ///< of one chunk each; times plan::share() in stages

  /// The cost that papers give: idle time between the first and the last task.
  double idle() const { return last_end - first_start - work; }
};

/// What happened.
struct simulation {
  bool finished = false;              ///< false: some tasks wait for ever
  std::vector<timed_task> tasks = {}; ///< by start, then rank
  std::vector<rank_numbers> by_rank = {};
  double span = 0; ///< from the first start to the last end
  double work = 0; ///< of all ranks

  /// The share of the ranks' time in which they do not work, ramps included.
  double bubble() const;

  /// Idle time of the worst rank between its first and last task.
  double cost() const;
};

/// Runs a plan's actors without actors: the same ledger, the same dispatch rule, and messages that
/// take time. Whatever happens at one moment is seen before the ranks choose, and ranks do not see
/// what has not arrived.
///
/// Times are counted in ticks of a 46 millionth of the longest task, divisible by all numbers up to
/// 16, so that what should happen at once does, whatever the shares.
///
/// Cost: time in proportion to tasks x log ranks; memory to the tasks.
simulation simulate(const plan& of, const conditions& under = {});

/// The plan with the order in which it ran, fixed: nothing is left to choose. What a planner that
/// does not look at messages would have made of it.
plan freeze(plan of, const simulation& ran);

} // namespace sluice::plan
