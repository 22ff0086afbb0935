#include "actors/pipeline.hpp"

#include <algorithm>
#include <mutex>

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/init_global_meta_objects.hpp>
#include <fmt/format.h>

#include "actors/model_layout.hpp"
#include "actors/plan/check.hpp"
#include "actors/stage.hpp"
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
CAF_BEGIN_TYPE_ID_BLOCK(sluice_pipeline, caf::id_block::sluice_local::end)
  CAF_ADD_TYPE_ID(sluice_pipeline, (sluice::actors::errand))
CAF_END_TYPE_ID_BLOCK(sluice_pipeline)
// clang-format on
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::errand)

namespace sluice::actors {

void register_messages() {
  static std::once_flag once;
  std::call_once(once, [] {
    caf::core::init_global_meta_objects();
    caf::init_global_meta_objects<caf::id_block::sluice>();
    caf::init_global_meta_objects<caf::id_block::sluice_local>();
    caf::init_global_meta_objects<caf::id_block::sluice_pipeline>();
  });
}

std::string text_of(const caf::error& problem) {
  if (problem == caf::sec::request_receiver_down || problem == caf::sec::broken_promise)
    return "the pipeline has ended";
  if (problem.context().match_elements<std::string>())
    return problem.context().get_as<std::string>(0);
  return caf::to_string(problem);
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

struct pipeline::implementation {
  std::unique_ptr<own_system> owned;
  caf::actor_system* system = nullptr;
  std::shared_ptr<net::network> network;
  std::vector<caf::actor> stages;
  caf::actor trainer;
  caf::actor courier; ///< once somebody did not want to wait; ends when nobody holds it any more
  std::vector<std::vector<std::string>> parts;

  ~implementation() {
    if (system == nullptr)
      return; // The plan or the layout was refused.
    caf::scoped_actor self{*system};
    if (trainer) // First, so that it does not take the stages' end for a fault.
      stages.insert(stages.begin(), std::move(trainer));
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
               [&](const caf::error& problem) { throw pipeline_error(text_of(problem)); });
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
                  promise->set_exception(std::make_exception_ptr(pipeline_error(text_of(problem))));
                });
      }});
    return result;
  }
};

pipeline::pipeline(pipeline_options options) : impl_(std::make_unique<implementation>()) {
  if (options.refuse_dead_plans)
    if (const auto verdict = plan::check(options.plan); !verdict.live)
      throw std::invalid_argument("the plan cannot run: " + verdict.text);
  auto layout = lay_out(layout_of(options));
  take_over_skips(options.plan, layout);
  if (options.plan.asynchronous)
    check_asynchronous(options, layout);
  impl_->parts = std::move(layout.part_layers);
  impl_->system = options.system;
  if (impl_->system == nullptr) {
    impl_->owned = std::make_unique<own_system>();
    impl_->system = &impl_->owned->system;
  }
  impl_->network =
    options.network ? options.network : net::make_local_network(options.plan.ranks + 1);
  if (!options.optimizer)
    options.optimizer = kernels::nn::make_adamw({});

  const auto events = std::make_shared<const step_events>(std::move(options.events));
  auto trainer = std::make_shared<trainer_config>();
  trainer->events = events;
  for (std::int32_t rank = 0; rank < options.plan.ranks; ++rank) {
    auto stage = std::make_shared<stage_config>();
    stage->rank = rank;
    stage->training = options.plan;
    stage->network = impl_->network;
    stage->events = events;
    stage->shared = layout.shared;
    stage->patience = options.patience;
    stage->work = std::make_unique<rank_work>(
      rank, kernels::stream(kernels::make_cpu_device(), options.threads, options.memory_bytes),
      std::move(layout.chunks[static_cast<std::size_t>(rank)]),
      parameter_set(rank, layout.shared, options.optimizer));
    if (options.extra_time)
      stage->extra_time = [rank, extra = options.extra_time](const plan::task& task, bool split) {
        return extra(rank, task, split);
      };
    impl_->stages.push_back(spawn_stage(*impl_->system, std::move(stage), options.detached));
  }
  trainer->training = std::move(options.plan);
  trainer->stages = impl_->stages;
  trainer->names = std::move(layout.names);
  trainer->network = impl_->network;
  trainer->seed = options.seed;
  trainer->clip = options.clip;
  trainer->deadline = options.deadline;
  trainer->learning_rate =
    options.learning_rate ? std::move(options.learning_rate) : [](std::uint64_t) { return 1e-3; };
  impl_->trainer = spawn_trainer(*impl_->system, std::move(trainer));
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
  const auto& stage = impl_->stages.at(static_cast<std::size_t>(rank));
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
