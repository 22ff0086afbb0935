#pragma once

/// How CAF writes and reads the control messages of messages.hpp; include that instead.

#include <type_traits>

#include "actors/messages.hpp"

// clang-format off
CAF_BEGIN_TYPE_ID_BLOCK(sluice, caf::first_custom_type_id + 1000)
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::set_up))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::stage_ready))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::begin_step))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::arrived))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::channel_failed))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::task_done))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::look_again))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::stage_done))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::apply))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::stage_applied))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::abort_step))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::step_aborted))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::stage_failed))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::describe))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::description))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::send_state))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::state_names))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::load_state))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::state_installed))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::transfer_ready))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::commit_due))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::transfers_committed))
  CAF_ADD_TYPE_ID(sluice, (sluice::actors::sequenced_stage))
CAF_END_TYPE_ID_BLOCK(sluice)
// clang-format on

namespace sluice::actors::detail {

template <class Inspector, class Enum>
bool inspect_enum(Inspector& f, Enum& value) {
  using number = std::underlying_type_t<Enum>;
  auto get = [&value] { return static_cast<number>(value); };
  auto set = [&value](number read) {
    value = static_cast<Enum>(read);
    return true;
  };
  return f.apply(get, set);
}

} // namespace sluice::actors::detail

namespace sluice::plan {

template <class Inspector>
bool inspect(Inspector& f, task_kind& x) {
  return actors::detail::inspect_enum(f, x);
}

template <class Inspector>
bool inspect(Inspector& f, task& x) {
  return f.object(x).fields(f.field("kind", x.kind), f.field("chunk", x.chunk),
                            f.field("micro_batch", x.micro_batch));
}

} // namespace sluice::plan

namespace sluice::kernels {

template <class Inspector>
bool inspect(Inspector& f, dtype& x) {
  return actors::detail::inspect_enum(f, x);
}

} // namespace sluice::kernels

namespace sluice::kernels::nn {

template <class Inspector>
bool inspect(Inspector& f, purpose& x) {
  return actors::detail::inspect_enum(f, x);
}

} // namespace sluice::kernels::nn

namespace sluice::net {

template <class Inspector>
bool inspect(Inspector& f, payload& x) {
  return actors::detail::inspect_enum(f, x);
}

template <class Inspector>
bool inspect(Inspector& f, transfer& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("payload", x.payload),
                            f.field("from", x.from), f.field("to", x.to), f.field("chunk", x.chunk),
                            f.field("micro_batch", x.micro_batch));
}

template <class Inspector>
bool inspect(Inspector& f, tensor_header& x) {
  return f.object(x).fields(f.field("present", x.present), f.field("type", x.type),
                            f.field("extents", x.extents));
}

template <class Inspector>
bool inspect(Inspector& f, offer& x) {
  return f.object(x).fields(f.field("what", x.what), f.field("tensors", x.tensors));
}

} // namespace sluice::net

namespace sluice::actors {

template <class Inspector>
bool inspect(Inspector& f, set_up& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("seed", x.seed));
}

template <class Inspector>
bool inspect(Inspector& f, stage_ready& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("rank", x.rank));
}

template <class Inspector>
bool inspect(Inspector& f, begin_step& x) {
  return f.object(x).fields(
    f.field("epoch", x.epoch), f.field("step", x.step), f.field("purpose", x.purpose),
    f.field("micro_batches", x.micro_batches), f.field("learning_rate", x.learning_rate),
    f.field("loss_scales", x.loss_scales), f.field("first_samples", x.first_samples));
}

template <class Inspector>
bool inspect(Inspector& f, transfer_ready& x) {
  return f.object(x).fields(f.field("what", x.what));
}

template <class Inspector>
bool inspect(Inspector& f, commit_due& x) {
  return f.object(x).fields();
}

template <class Inspector>
bool inspect(Inspector& f, transfers_committed& x) {
  return f.object(x).fields(f.field("together", x.together));
}

template <class Inspector>
bool inspect(Inspector& f, sequenced_stage& x) {
  return f.object(x).fields(f.field("rank", x.rank));
}

template <class Inspector>
bool inspect(Inspector& f, arrived& x) {
  return f.object(x).fields(f.field("what", x.what));
}

template <class Inspector>
bool inspect(Inspector& f, channel_failed& x) {
  return f.object(x).fields(f.field("what", x.what));
}

template <class Inspector>
bool inspect(Inspector& f, task_done& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("what", x.what));
}

template <class Inspector>
bool inspect(Inspector& f, look_again& x) {
  return f.object(x).fields(f.field("epoch", x.epoch));
}

template <class Inspector>
bool inspect(Inspector& f, executed_task& x) {
  return f.object(x).fields(f.field("what", x.what), f.field("start", x.start_ns),
                            f.field("end", x.end_ns));
}

template <class Inspector>
bool inspect(Inspector& f, micro_batch_loss& x) {
  return f.object(x).fields(f.field("micro_batch", x.micro_batch), f.field("which", x.which),
                            f.field("sum", x.sum));
}

template <class Inspector>
bool inspect(Inspector& f, gradient_square& x) {
  return f.object(x).fields(f.field("parameter", x.parameter), f.field("sum", x.sum));
}

template <class Inspector>
bool inspect(Inspector& f, stage_memory& x) {
  return f.object(x).fields(f.field("peak_activations", x.peak_activations),
                            f.field("peak_activation_bytes", x.peak_activation_bytes),
                            f.field("peak_transfer_bytes", x.peak_transfer_bytes),
                            f.field("peak_bytes", x.peak_bytes),
                            f.field("peak_weight_versions", x.peak_weight_versions),
                            f.field("device_allocations", x.device_allocations));
}

template <class Inspector>
bool inspect(Inspector& f, stage_done& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("rank", x.rank),
                            f.field("losses", x.losses), f.field("squares", x.squares),
                            f.field("tasks", x.tasks), f.field("memory", x.memory));
}

template <class Inspector>
bool inspect(Inspector& f, apply& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("step", x.step),
                            f.field("learning_rate", x.learning_rate),
                            f.field("gradient_scale", x.gradient_scale));
}

template <class Inspector>
bool inspect(Inspector& f, stage_applied& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("rank", x.rank));
}

template <class Inspector>
bool inspect(Inspector& f, abort_step& x) {
  return f.object(x).fields(f.field("epoch", x.epoch));
}

template <class Inspector>
bool inspect(Inspector& f, step_aborted& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("rank", x.rank),
                            f.field("interrupted", x.interrupted));
}

template <class Inspector>
bool inspect(Inspector& f, stage_failed& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("rank", x.rank),
                            f.field("what", x.what), f.field("lasting", x.lasting));
}

template <class Inspector>
bool inspect(Inspector& f, describe& x) {
  return f.object(x).fields(f.field("epoch", x.epoch));
}

template <class Inspector>
bool inspect(Inspector& f, description& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("rank", x.rank),
                            f.field("tasks_done", x.tasks_done), f.field("waits_for", x.waits_for));
}

template <class Inspector>
bool inspect(Inspector& f, send_state& x) {
  return f.object(x).fields(f.field("epoch", x.epoch));
}

template <class Inspector>
bool inspect(Inspector& f, state_names& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("rank", x.rank),
                            f.field("parameters", x.parameters),
                            f.field("optimizer_slots", x.optimizer_slots));
}

template <class Inspector>
bool inspect(Inspector& f, load_state& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("parameters", x.parameters));
}

template <class Inspector>
bool inspect(Inspector& f, state_installed& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("rank", x.rank));
}

} // namespace sluice::actors
