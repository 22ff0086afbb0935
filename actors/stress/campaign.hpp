#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/stress/seeded_bug.hpp"

namespace sluice::stress {

/// A trial that went wrong.
struct failure {
  std::uint64_t seed = 0;  ///< of the trial
  std::uint64_t index = 0; ///< within the run, from 0
  std::string what;        ///< what was wrong; for a stall, who waits for what
  std::string trial;       ///< what ran, in one line
  std::string replay;      ///< the command that runs it again
};

/// Many trials.
struct campaign {
  std::uint64_t trials = 1000;
  std::optional<std::chrono::duration<double>> time = {}; ///< begins no trial after that
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> replay = {}; ///< this one's seed, for all trials
  seeded_bug bug = seeded_bug::none;
  int at_once = 8;           ///< most of a trial's time is waiting
  std::size_t failures = 10; ///< enough of them: stops there
  std::chrono::milliseconds deadline{5000};
  std::function<void(const failure&)> on_failure = {}; ///< called for one at a time
};

struct campaign_report {
  std::uint64_t trials = 0;           ///< that ran
  std::uint64_t refused = 0;          ///< of them: plans that cannot finish, rightly refused
  std::vector<failure> failures = {}; ///< by index
  double seconds = 0;

  double trials_per_second() const {
    return seconds > 0 ? static_cast<double>(trials) / seconds : 0;
  }
};

/// Runs the trials in one actor system of its own. Thread: one that is no actor's; blocks.
campaign_report run(const campaign& wanted);

} // namespace sluice::stress
