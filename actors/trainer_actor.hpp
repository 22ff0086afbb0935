#pragma once

/// The trainer as a typed actor, for embedders whose own actors send it steps. It brings CAF's
/// headers along; a program that only calls the pipeline includes actors/pipeline.hpp alone.
///
///     auto trainer = sluice::actors::trainer_of(line);
///     self->request(trainer, caf::infinite, sluice::actors::train_batch{data})
///       .then([](sluice::actors::step_report& report) { ... },
///             [](const caf::error& problem) { ... });

#include <caf/result.hpp>
#include <caf/typed_actor.hpp>

#include "actors/pipeline.hpp"
#include "actors/text_of.hpp"
#include "actors/trainer_messages.hpp"

namespace sluice::actors {

/// What the trainer understands, and what it answers. A message that is not in this list does not
/// compile; a failure answers any of them with a caf::error of code runtime_error (its text says
/// rank, chunk, micro-batch, operation), a batch or state that does not fit with invalid_argument.
///
/// Requests are served one at a time, in the order of their arrival. The trainer can be watched
/// and linked to as any actor: it ends with its pipeline, and lives on when a step fails.
using trainer_actor = caf::typed_actor<caf::result<step_report>(train_batch),     //
                                       caf::result<step_report>(evaluate_batch),  //
                                       caf::result<prediction>(predict_batch),    //
                                       caf::result<model_state_ptr>(fetch_state), //
                                       caf::result<caf::unit_t>(install_state)>;

/// The trainer of a pipeline; valid as long as the pipeline lives.
inline trainer_actor trainer_of(const pipeline& line) {
  return caf::actor_cast<trainer_actor>(line.trainer());
}

} // namespace sluice::actors
