#include "actors/pipeline.hpp"

#include <algorithm>
#include <mutex>

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/init_global_meta_objects.hpp>
#include <fmt/format.h>

#include "actors/caf_compat_io.hpp"
#include "actors/crew.hpp"
#include "actors/make_stage.hpp"
#include "actors/model_layout.hpp"
#include "actors/plan/check.hpp"
#include "actors/sequencer.hpp"
#include "actors/stage.hpp"
#include "actors/text_of.hpp"
#include "actors/trainer_actor.hpp"
#include "actors/trainer_messages.hpp"
#include "net/local.hpp"

namespace sluice::actors {

/// Caller to courier: ask the trainer this.
struct errand {
  std::function<void(caf::event_based_actor*)> begin;
};

} // namespace sluice::actors

// clang-format off
CAF_BEGIN_TYPE_ID_BLOCK(sluice_pipeline, caf::id_block::sluice_crew::end)
  CAF_ADD_TYPE_ID(sluice_pipeline, (sluice::actors::errand))
CAF_END_TYPE_ID_BLOCK(sluice_pipeline)
// clang-format on
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::errand)

namespace sluice::actors {

void register_messages() {
  static std::once_flag once;
  std::call_once(once, [] {
    caf::core::init_global_meta_objects();
    caf::io::middleman::init_global_meta_objects();
    caf::init_global_meta_objects<caf::id_block::sluice_hosts>();
    caf::init_global_meta_objects<caf::id_block::sluice>();
    caf::init_global_meta_objects<caf::id_block::sluice_local>();
    caf::init_global_meta_objects<caf::id_block::sluice_crew>();
    caf::init_global_meta_objects<caf::id_block::sluice_pipeline>();
  });
}

namespace {

/// Pooled actors share the workers message by message, so that none starves another.
struct system_config : caf::actor_system_config {
  system_config() {
    register_messages();
    set("caf.scheduler.policy", "sharing");
    set("caf.scheduler.max-throughput", 1);
    set("caf.logger.console.verbosity", "quiet");
  }
};

struct own_system {
  system_config config;
  caf::actor_system system{config};
};

pipeline_error failure(const caf::error& problem) {
  if (problem == caf::sec::request_receiver_down || problem == caf::sec::broken_promise)
    return pipeline_error("the pipeline has ended", true);
  return pipeline_error(text_of(problem), problem == unusable);
}

/// Updates within a step leave no moment at which all stages could add gradients or norms.
void check_asynchronous(const pipeline_options& options, const model_layout& layout) {
  if (options.clip > 0)
    throw std::invalid_argument(
      fmt::format("{} updates within the step, where no global norm can be had: set clip to 0",
                  options.plan.schedule));
  for (const auto& shared : layout.shared)
    if (!shared.other_ranks(shared.holders.front().rank).empty())
      throw std::invalid_argument(
        fmt::format("{} updates within the step, so that {} cannot be shared by several stages: do "
                    "not tie it",
                    options.plan.schedule, shared.name));
}

/// What leaps over parts passes through the chunks between, so that it has come when their output
/// has: the stages need no edges of its own. But what the plan says must be what the model does.
void take_over_skips(plan::plan& of, const model_layout& layout) {
  for (const auto& skip : of.skips)
    if (std::ranges::count(layout.leaps, std::pair{static_cast<std::size_t>(skip.from_part),
                                                   static_cast<std::size_t>(skip.to_part)})
        == 0)
      throw std::invalid_argument(
        fmt::format("the plan has a skip from part {} to part {}, but no layer of the one takes "
                    "what a layer of the other gives by name",
                    skip.from_part, skip.to_part));
  of.skips.clear();
}

} // namespace

layout_request layout_of(const pipeline_options& options) {
  return {options.plan,      options.layers,          options.cut,   options.layer_costs,
          options.recompute, options.recompute_ranks, options.values};
}

void use_recipes(pipeline_options& options) {
  if (options.model && !options.layers)
    options.layers = [of = *options.model] { return make_layers(of); };
  if (!options.optimizer)
    options.optimizer = make_optimizer(options.update.value_or(optimizer_recipe{}));
}

struct pipeline::implementation {
  std::shared_ptr<actors::crew> crew; // Goes last: the actors live in its system.
  std::unique_ptr<own_system> owned;
  caf::actor_system* system = nullptr;
  std::shared_ptr<net::network> network;
  std::vector<caf::actor> stages;  ///< of this process
  std::vector<caf::actor> by_rank; ///< all
  caf::actor trainer;
  caf::actor sequencer; ///< of a network that needs one
  caf::actor courier;   ///< once somebody did not want to wait; ends when nobody holds it any more
  std::vector<std::vector<std::string>> parts;

  void start(pipeline_options options, model_layout layout, crew_stages far);

  ~implementation() {
    if (system == nullptr)
      return; // The plan or the layout was refused.
    caf::scoped_actor self{*system};
    if (trainer) // First, so that it does not take the stages' end for a fault.
      stages.insert(stages.begin(), std::move(trainer));
    if (sequencer)
      stages.push_back(std::move(sequencer));
    for (const auto& each : stages)
      self->send_exit(each, caf::exit_reason::user_shutdown);
    self->wait_for(stages);
  }

  template <class Answer, class Request>
  Answer ask(Request request) {
    if (courier) // So that it does not overtake what was asked before.
      return ask_later<Answer>(std::move(request)).get();
    caf::scoped_actor self{*system};
    std::optional<Answer> result;
    // No time-out here: the trainer has deadlines for all that it waits for.
    compat::ask(self.ptr(), trainer, caf::infinite, std::move(request))
      .receive([&](Answer& answer) { result = std::move(answer); },
               [&](const caf::error& problem) { throw failure(problem); });
    return std::move(*result);
  }

  /// The same by an actor that waits in place of the caller: one for all, so that they keep their
  /// order.
  template <class Answer, class Request>
  std::future<Answer> ask_later(Request request) {
    auto promise = std::make_shared<std::promise<Answer>>();
    auto result = promise->get_future();
    if (!courier)
      courier = system->spawn([](caf::event_based_actor* self) -> caf::behavior {
        return {[self](const errand& what) { what.begin(self); }};
      });
    compat::anon_tell(
      courier,
      errand{[promise, to = trainer, asked = std::move(request)](caf::event_based_actor* self) {
        compat::ask(self, to, caf::infinite, asked)
          .then([promise](Answer& answer) { promise->set_value(std::move(answer)); },
                [promise](const caf::error& problem) {
                  promise->set_exception(std::make_exception_ptr(failure(problem)));
                });
      }});
    return result;
  }
};

namespace {

/// Fills in what follows from the rest, and refuses what cannot run.
void complete(pipeline_options& options) {
  if (options.refuse_dead_plans)
    if (const auto verdict = plan::check(options.plan); !verdict.live)
      throw std::invalid_argument("the plan cannot run: " + verdict.text);
  use_recipes(options);
  if (!options.learning_rate)
    options.learning_rate = [](std::uint64_t) { return 1e-3; };
  if (options.crew && (!options.model || !options.update))
    throw std::invalid_argument("stages in other processes need the model and the optimizer as "
                                "data");
  if (options.crew && options.device)
    throw std::invalid_argument("beside stages in other processes those of this one compute on the "
                                "processor: have a worker on this host offer its GPUs");
  if (options.crew && options.placement.size() != static_cast<std::size_t>(options.plan.ranks))
    throw std::invalid_argument(
      fmt::format("{} places for {} stages", options.placement.size(), options.plan.ranks));
}

stage_recipe recipe_of(const pipeline_options& options, const model_layout& layout) {
  stage_recipe made{.plan = options.plan,
                    .model = *options.model,
                    .optimizer = *options.update,
                    .recompute = options.recompute,
                    .recompute_ranks = options.recompute_ranks,
                    .threads = options.threads,
                    .memory_bytes = options.memory_bytes,
                    .values = options.values};
  for (const auto& layers : layout.part_layers)
    made.cut.push_back(layers.size());
  return made;
}

} // namespace

pipeline::pipeline(pipeline_options options) : impl_(std::make_unique<implementation>()) {
  complete(options);
  auto layout = lay_out(layout_of(options));
  take_over_skips(options.plan, layout);
  if (options.plan.asynchronous)
    check_asynchronous(options, layout);
  impl_->parts = layout.part_layers;
  crew_stages far;
  far.stages.resize(static_cast<std::size_t>(options.plan.ranks));
  if (options.crew) {
    impl_->crew = options.crew;
    impl_->system = &options.crew->system();
    try {
      far = options.crew->hire_for(recipe_of(options, layout), layout.shared, options.placement);
    } catch (const std::runtime_error& problem) {
      throw pipeline_error(problem.what(), true);
    }
    impl_->network = far.network;
  } else {
    impl_->system = options.system;
    impl_->network =
      options.network ? options.network : net::make_local_network(options.plan.ranks + 1);
  }
  if (impl_->system == nullptr) {
    impl_->owned = std::make_unique<own_system>();
    impl_->system = &impl_->owned->system;
  }
  if (impl_->network->needs_order()) {
    impl_->sequencer = spawn_sequencer(*impl_->system);
    impl_->network->order_by([to = impl_->sequencer](const net::offer& what) {
      compat::anon_tell(to, transfer_ready{what});
    });
  }
  impl_->start(std::move(options), std::move(layout), std::move(far));
}

/// Starts the stages of this process, and the trainer of all.
void pipeline::implementation::start(pipeline_options options, model_layout layout,
                                     crew_stages far) {
  const stage_materials materials{.training = options.plan,
                                  .optimizer = options.optimizer,
                                  .network = network,
                                  .device = options.device,
                                  .threads = options.threads,
                                  .memory_bytes = options.memory_bytes,
                                  .patience = options.patience,
                                  .events =
                                    std::make_shared<const step_events>(std::move(options.events))};
  auto made = std::make_shared<trainer_config>();
  made->stages = std::move(far.stages);
  made->events = materials.events;
  for (std::int32_t rank = 0; rank < options.plan.ranks; ++rank) {
    auto& stage = made->stages[static_cast<std::size_t>(rank)];
    if (stage)
      continue;
    auto config = make_stage(rank, materials, layout);
    if (options.extra_time)
      config->extra_time = [rank, extra = options.extra_time](const plan::task& task, bool split) {
        return extra(rank, task, split);
      };
    stage = spawn_stage(*system, std::move(config), options.detached);
    stages.push_back(stage);
    if (sequencer)
      compat::anon_tell(sequencer, sequenced_stage{rank}, stage);
  }
  by_rank = made->stages;
  made->training = std::move(options.plan);
  made->names = std::move(layout.names);
  made->network = network;
  made->seed = options.seed;
  made->clip = options.clip;
  made->deadline = options.deadline;
  made->learning_rate = std::move(options.learning_rate);
  made->places = std::move(far.places);
  made->clock_offsets_ns = std::move(far.clock_offsets_ns);
  trainer = spawn_trainer(*system, std::move(made));
}

pipeline::~pipeline() = default;
pipeline::pipeline(pipeline&&) noexcept = default;
pipeline& pipeline::operator=(pipeline&&) noexcept = default;

step_report pipeline::step(batch data) {
  return impl_->ask<step_report>(train_batch{std::make_shared<const batch>(std::move(data))});
}

std::future<step_report> pipeline::step_later(batch data) {
  return impl_->ask_later<step_report>(train_batch{std::make_shared<const batch>(std::move(data))});
}

step_report pipeline::evaluate(batch data) {
  return impl_->ask<step_report>(evaluate_batch{std::make_shared<const batch>(std::move(data))});
}

std::vector<kernels::tensor_list> pipeline::predict(batch data) {
  return impl_->ask<prediction>(predict_batch{std::make_shared<const batch>(std::move(data))})
    .outputs;
}

std::shared_ptr<const model_state> pipeline::state() {
  return impl_->ask<model_state_ptr>(fetch_state{});
}

void pipeline::install(std::shared_ptr<const model_state> state) {
  impl_->ask<caf::unit_t>(install_state{std::move(state)});
}

void pipeline::end_stage(std::int32_t rank) {
  caf::scoped_actor self{*impl_->system};
  const auto& stage = impl_->by_rank.at(static_cast<std::size_t>(rank));
  self->send_exit(stage, caf::exit_reason::kill);
  self->wait_for(stage);
}

const caf::actor& pipeline::trainer() const {
  return impl_->trainer;
}

const std::vector<std::vector<std::string>>& pipeline::parts() const {
  return impl_->parts;
}

} // namespace sluice::actors
