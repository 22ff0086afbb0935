#pragma once

/// CAF's knowledge of what the trainer actor is asked; these messages stay within one process.

#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/trainer.hpp"

namespace sluice::actors {

/// Trainer to itself: look whether the operation of this epoch gets on.
struct tick {
  std::uint64_t epoch = 0;
};

using model_state_ptr = std::shared_ptr<const model_state>;

} // namespace sluice::actors

// clang-format off
CAF_BEGIN_TYPE_ID_BLOCK(sluice_local, caf::id_block::sluice::end)
  CAF_ADD_TYPE_ID(sluice_local, (sluice::actors::train_batch))
  CAF_ADD_TYPE_ID(sluice_local, (sluice::actors::evaluate_batch))
  CAF_ADD_TYPE_ID(sluice_local, (sluice::actors::predict_batch))
  CAF_ADD_TYPE_ID(sluice_local, (sluice::actors::fetch_state))
  CAF_ADD_TYPE_ID(sluice_local, (sluice::actors::install_state))
  CAF_ADD_TYPE_ID(sluice_local, (sluice::actors::step_report))
  CAF_ADD_TYPE_ID(sluice_local, (sluice::actors::prediction))
  CAF_ADD_TYPE_ID(sluice_local, (sluice::actors::model_state_ptr))
  CAF_ADD_TYPE_ID(sluice_local, (sluice::actors::tick))
CAF_END_TYPE_ID_BLOCK(sluice_local)
// clang-format on

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::train_batch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::evaluate_batch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::predict_batch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::fetch_state)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::install_state)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::step_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::prediction)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::model_state_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::tick)
