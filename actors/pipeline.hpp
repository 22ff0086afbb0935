#pragma once

/// What embedders include: a model's layers and a plan in, a running pipeline of stage actors out.
///
///     sluice::pipeline line({
///       .plan = sluice::plan::make_plan("1f1b", {.stages = 4, .micro_batches = 8}),
///       .layers = [] { return make_my_layers(); },
///     });
///     sluice::step_report report = line.step(batch); // report.loss, report.bubble ...
///
/// Nothing here brings CAF along; actors/trainer_actor.hpp does, for those who send messages.

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/batch.hpp"
#include "actors/events.hpp"
#include "actors/model_recipe.hpp"
#include "actors/model_state.hpp"
#include "actors/plan/dispatch.hpp"
#include "actors/plan/make_plan.hpp"
#include "actors/plan/plan.hpp"
#include "actors/report.hpp"
#include "kernels/nn/make_module.hpp"
#include "kernels/nn/optimizer.hpp"
#include "kernels/nn/ports.hpp"
#include "kernels/nn/stage_module.hpp"
#include "kernels/nn/wire.hpp"

namespace caf {
class actor;
class actor_system;
} // namespace caf

namespace sluice::net {
class network;
}

namespace sluice::actors {

class crew;

/// What a pipeline is made of. Everything but `plan` and `layers` has a default.
struct pipeline_options {
  plan::plan plan = {};

  /// Makes the model's layers, in order, without parameters yet. Called once for each route.
  std::function<std::vector<kernels::nn::module_ptr>()> layers = {};

  /// What a batch's inputs and targets are called, for layers that find their tensors by name
  /// (kernels/nn/ports.hpp). Others need none.
  kernels::nn::model_values values = {};
  /// The model as data: what stages in other processes are made from. `layers` may be left out
  /// unless it is of a kind of your own (worker_config::models).
  std::optional<model_recipe> model = {};

  /// How many layers each of the plan's parts gets, by hand. Empty: by `layer_costs`.
  std::vector<std::size_t> cut = {};

  /// What each layer costs, in any unit; kernels::nn::profile() measures it. Empty: all the same.
  std::vector<double> layer_costs = {};

  /// Whether chunks drop what their layers saved and run the forward again before the backward.
  /// Results are the same, bit for bit.
  bool recompute = false;
  std::vector<std::int32_t> recompute_ranks = {}; ///< if not empty: only the chunks of these
  std::shared_ptr<const kernels::nn::optimizer> optimizer = {}; ///< default: AdamW
  std::optional<optimizer_recipe> update = {};                  ///< the same as data
  std::function<double(std::uint64_t)> learning_rate = {};      ///< by step; default: 1e-3
  double clip = 0; ///< global gradient norm; 0: no clipping
  std::uint64_t seed = 1;
  /// Each rank's device, by which its chunks compute. Default: the processor.
  std::function<std::shared_ptr<kernels::device>(std::int32_t rank)> device = {};
  int threads = 1;                            ///< of each stage's matrix products
  std::size_t memory_bytes = 0;               ///< limit of each stage; 0: none
  std::chrono::milliseconds deadline{60'000}; ///< without progress, a step is given up

  /// The ranks' channels. Default: hand-off within this process. The receive slots of bounded ones
  /// belong into plan.receive_slots, for the check to count with them.
  std::shared_ptr<net::network> network = {};

  /// How long an idle stage hopes for the input that it wants before it takes a task that stands in
  /// for it: about what two messages take. See plan::patient_for().
  std::chrono::nanoseconds patience = plan::default_patience;

  /// How much longer than its computation a rank's task takes; for emulation and tests.
  std::function<std::chrono::nanoseconds(std::int32_t rank, const plan::task&, bool split)>
    extra_time = {};

  /// Where each rank is hosted: "local", or a worker of `crew`. Needs `model` and `update`. The
  /// pipeline lives in the crew's actor system, and ends with letting the workers go.
  std::vector<std::string> placement = {};
  std::shared_ptr<actors::crew> crew = {};

  /// Whether each stage has a thread of its own. Off only for stages that merely emulate.
  bool detached = true;

  /// Off only for tests that want to see a plan stall that check() says will.
  bool refuse_dead_plans = true;

  /// Callbacks before and after each task, when gradients are ready, when a step is done.
  step_events events = {};

  /// The actor system to live in, whose configuration was made after register_messages(); the
  /// pipeline makes its own if there is none.
  caf::actor_system* system = nullptr;
};

/// Makes `layers` and `optimizer`, where they are not given, from what is given as data.
void use_recipes(pipeline_options& options);

/// A request to the pipeline failed; the text says rank, chunk, micro-batch and operation. The
/// weights are those from before the request, and unless a stage died the pipeline can be used on.
class pipeline_error : public std::runtime_error {
public:
  explicit pipeline_error(const std::string& what, bool lasting = false)
    : std::runtime_error(what),
      lasting_(lasting) {}

  /// Whether the pipeline is of no use any more: a stage or a channel is lost. Its weights, where
  /// they can still be had, may be those of no step.
  bool lasting() const noexcept { return lasting_; }

private:
  bool lasting_;
};

/// Stage actors and their trainer, called from a thread that is no actor's.
/// Thread: any, one call at a time. Errors: pipeline_error; std::invalid_argument from the
/// constructor, for a plan that cannot finish (with its cycle), or a model that cannot be cut so.
class pipeline {
public:
  explicit pipeline(pipeline_options options);
  ~pipeline();
  pipeline(pipeline&&) noexcept;
  pipeline& operator=(pipeline&&) noexcept;

  /// One optimizer step on a batch of as many micro-batches as the plan has.
  step_report step(batch data);

  /// The same without waiting: the future holds the report or a pipeline_error. Steps that are
  /// begun so run one after another, and evaluations and predictions between them in their turn.
  std::future<step_report> step_later(batch data);

  /// step(), as the command calls it.
  step_report train(batch data) { return step(std::move(data)); }

  /// The loss, without dropout or update, on any number of micro-batches.
  step_report evaluate(batch data);

  /// What the last module gives, by micro-batch. Targets are not needed.
  std::vector<kernels::tensor_list> predict(batch data);

  /// The weights and the optimizer's state.
  std::shared_ptr<const model_state> state();

  /// Continues from a state that state() gave, of this or another pipeline of the same model.
  void install(std::shared_ptr<const model_state> state);

  /// Ends one stage actor, as a fault would; for tests of what an embedder does then.
  void end_stage(std::int32_t rank);

  /// The trainer actor, for embedders who talk to it by messages (actors/trainer_actor.hpp).
  const caf::actor& trainer() const;

  /// The names of the layers of each part.
  const std::vector<std::vector<std::string>>& parts() const;

private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// Registers Sluice's messages with CAF; call it before making an actor system of your own.
void register_messages();

} // namespace sluice::actors

/// Short names for embedders.
namespace sluice {

namespace nn = kernels::nn;
using actors::batch;
using actors::batch_part;
using actors::pipeline;
using actors::pipeline_error;
using actors::pipeline_options;
using actors::step_report;
using kernels::dtype;
using kernels::stream;
using kernels::tensor;
using kernels::tensor_list;

} // namespace sluice
