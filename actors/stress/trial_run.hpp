#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "actors/stress/reference.hpp"
#include "actors/stress/seeded_bug.hpp"
#include "actors/stress/trial.hpp"

namespace caf {
class actor_system;
}

namespace sluice::stress {

/// In what a trial runs.
struct trial_world {
  caf::actor_system& system;
  reference_book& references;
  std::chrono::milliseconds deadline{
    5000}; ///< a step that makes no progress for so long has failed
  seeded_bug bug = seeded_bug::none;
};

/// Runs a trial through the actors and channels; returns what is wrong in one line, or nothing.
///
/// A plan that can finish must do so, exactly, within its memory and in lane order. One that cannot
/// must be refused, must stall in a simulation, and, now and then, in the actors too.
/// Thread: any, several at a time.
std::string run_trial(std::shared_ptr<const trial> of, const trial_world& in);

} // namespace sluice::stress
