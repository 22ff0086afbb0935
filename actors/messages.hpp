#pragma once

/// Every control message: who sends it to whom, and what it means. No message carries a tensor;
/// those pass through net::endpoint, and `arrived` says so.
///
/// A step, as the messages see it:
///
///     trainer                    stage r
///        | begin_step -------------> |
///        |                           | <-- arrived         (its endpoint: an input is here)
///        |                           | --> task_done       (to itself, when the device is done)
///        | <------------- stage_done |                     (all its tasks, its losses and norms)
///        | apply ------------------> |
///        | <---------- stage_applied |
///
/// After a failure the trainer sends abort_step in place of what comes next, and every stage
/// answers step_aborted once its device is idle and nothing of the step is left on it.
///
/// Activation credits are no messages: a credit is taken by a forward and freed by a backward of
/// the same rank. Receive slots are returned by the channel when a tensor is taken.

#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/plan/plan.hpp"
#include "actors/report.hpp"
#include "kernels/nn/stage_module.hpp"
#include "net/offer.hpp"
#include "net/transfer.hpp"

namespace sluice::actors {

/// Trainer to stage, once: build the modules' parameters. Answer: stage_ready.
struct set_up {
  std::uint64_t epoch = 0;
  std::uint64_t seed = 0;
};

struct stage_ready {
  std::uint64_t epoch = 0;
  std::int32_t rank = 0;
};

/// Trainer to stage: run this purpose's plan once. Inputs and targets follow by the channel.
struct begin_step {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0; ///< optimizer steps so far
  kernels::nn::purpose purpose = kernels::nn::purpose::train;
  std::int32_t micro_batches = 0;
  double learning_rate = 0;                     ///< of updates within the step (asynchronous plans)
  std::vector<double> loss_scales = {};         ///< by micro-batch
  std::vector<std::int64_t> first_samples = {}; ///< by micro-batch
};

/// Endpoint to stage (or to the trainer): a transfer can be taken.
struct arrived {
  net::transfer what = {};
};

/// Endpoint to stage (or to the trainer): a channel broke.
struct channel_failed {
  std::string what = {};
};

/// Stage to itself: its device has finished a task.
struct task_done {
  std::uint64_t epoch = 0;
  plan::task what = {};
};

/// Stage to itself: it has waited long enough for the input that it wants.
struct look_again {
  std::uint64_t epoch = 0;
};

/// A loss summed over the valid targets of one micro-batch.
struct micro_batch_loss {
  std::int32_t micro_batch = 0;
  std::int32_t which = 0; ///< of the model's losses, numbered from the input
  double sum = 0;
};

/// The sum of squares of one parameter's gradient.
struct gradient_square {
  std::string parameter = {};
  double sum = 0;
};

/// Stage to trainer: all tasks of the step have run here; the weights are still untouched.
struct stage_done {
  std::uint64_t epoch = 0;
  std::int32_t rank = 0;
  std::vector<micro_batch_loss> losses = {}; ///< empty on a stage without a loss
  std::vector<gradient_square> squares = {}; ///< a shared parameter's once, at its first holder
  std::vector<executed_task> tasks = {};     ///< in the order of their start
  stage_memory memory = {};
};

/// Trainer to stage: update the weights with the gradients times `gradient_scale`.
struct apply {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0; ///< of this update, from 0
  double learning_rate = 0;
  double gradient_scale = 1;
};

struct stage_applied {
  std::uint64_t epoch = 0;
  std::int32_t rank = 0;
};

/// Trainer to stage: drop all of this epoch. Urgent. Answer: step_aborted.
struct abort_step {
  std::uint64_t epoch = 0;
};

struct step_aborted {
  std::uint64_t epoch = 0;
  std::int32_t rank = 0;
  std::string interrupted = {}; ///< what it was at, one line
};

/// Stage to trainer: something failed here; says rank, chunk, micro-batch and operation.
struct stage_failed {
  std::uint64_t epoch = 0;
  std::int32_t rank = 0;
  std::string what = {};
  bool lasting = false; ///< a channel is gone: no later step can run either
};

/// Trainer to stage, when a step has made no progress: what are you waiting for? Urgent.
struct describe {
  std::uint64_t epoch = 0;
};

struct description {
  std::uint64_t epoch = 0;
  std::int32_t rank = 0;
  std::int64_t tasks_done = 0;
  std::string waits_for = {}; ///< one line
};

/// Trainer to stage: send parameters and optimizer state (of those that this rank is the first
/// holder of) to the trainer's endpoint. Answer: state_sent, its names in the order of transfers.
struct send_state {
  std::uint64_t epoch = 0;
};

struct state_names {
  std::uint64_t epoch = 0;
  std::int32_t rank = 0;
  std::vector<std::string> parameters = {};
  std::vector<std::string> optimizer_slots =
    {}; ///< state tensors that follow each parameter's value
};

/// Trainer to stage: the named parameters' values and states arrive in this order; install them.
/// Answer: state_installed.
struct load_state {
  std::uint64_t epoch = 0;
  std::vector<std::string> parameters = {};
};

struct state_installed {
  std::uint64_t epoch = 0;
  std::int32_t rank = 0;
};

// -- the order of transfers (actors/sequencer.hpp) ----------------------------------------------

/// Endpoint to sequencer: a transfer can go.
struct transfer_ready {
  net::offer what = {};
};

/// Sequencer to itself: everything that was offered before this goes now.
struct commit_due {};

/// Sequencer to the stages at both ends: these go next, as one group.
struct transfers_committed {
  std::vector<net::offer> together = {};
};

/// To the sequencer, with a handle: the stage of this rank.
struct sequenced_stage {
  std::int32_t rank = 0;
};

} // namespace sluice::actors

#include "actors/messages_inspect.hpp"
