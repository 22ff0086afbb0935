#include "actors/stage.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "actors/plan/make_plan.hpp"
#include "actors/plan/simulate.hpp"

namespace sluice::actors {

using net::payload;
using plan::task_kind;

namespace {

/// Receive slots are granted and returned by the channel, where an output that lacks one waits: the
/// task that makes it need not. That allows more than the checker's graph, so what is live there
/// is here.
plan::plan& without_slots(plan::plan& of) {
  of.receive_slots = 0;
  return of;
}

} // namespace

stage_state::run::run(plan::plan of, std::int32_t rank)
  : plan(std::move(of)),
    links(without_slots(plan)),
    book(plan, links, rank) {}

stage_state::stage_state(caf::event_based_actor* self, std::shared_ptr<stage_config> config)
  : self_(self),
    config_(std::move(config)),
    work_(*config_->work),
    endpoint_(config_->network->at(config_->rank)),
    training_(config_->training, config_->rank) {}

stage_state::~stage_state() {
  endpoint_.close();
}

template <class Function>
void stage_state::guarded(Function body) {
  try {
    body();
  } catch (const std::exception& problem) {
    report(problem.what(), false);
  }
}

/// Tells the trainer what failed. lasting: no later step can run either.
void stage_state::report(const std::string& what, bool lasting) {
  const auto doing = this->doing();
  doing_.reset();
  interrupted_ = waits_for();
  enqueued_.clear();
  phase_ = phase::failed;
  if (trainer_)
    compat::tell(self_, trainer_,
                 stage_failed{epoch_, config_->rank,
                              fmt::format("rank {}: {}{}{}", config_->rank, doing,
                                          doing.empty() ? "" : ": ", what),
                              lasting});
  if (abort_pending_)
    finish_abort();
}

caf::behavior stage_state::make_behavior() {
  endpoint_.listen({
    .arrived = [to = caf::actor_cast<caf::actor>(self_)](
                 const net::transfer& what) { compat::anon_tell(to, arrived{what}); },
    .failed = [to = caf::actor_cast<caf::actor>(self_)](
                const std::string& what) { compat::anon_tell(to, channel_failed{what}); },
  });
  return {
    [this](const set_up& message) { guarded([&] { on_set_up(message); }); },
    [this](const begin_step& message) { guarded([&] { on_begin(message); }); },
    [this](const arrived& message) { guarded([&] { on_arrived(message.what); }); },
    [this](const channel_failed& message) {
      // Its word is that of the first one; what follows is an effect.
      if (phase_ != phase::failed)
        report(message.what, true);
    },
    [this](const task_done& message) { guarded([&] { on_task_done(message); }); },
    [this](const look_again& message) {
      guarded([&] {
        if (message.epoch == epoch_)
          advance(now_ns());
      });
    },
    [this](const apply& message) {
      guarded([&] {
        work_.parameters().update(work_.stream(), message);
        compat::tell(self_, trainer_, stage_applied{message.epoch, config_->rank});
      });
    },
    [this](const abort_step& message) { on_abort(message); },
    [this](const describe& message) {
      compat::tell(self_, trainer_,
                   description{message.epoch, config_->rank,
                               static_cast<std::int64_t>(tasks_.size()), waits_for()});
    },
    [this](const transfers_committed& message) {
      guarded([&] { endpoint_.commit(message.together); });
    },
    [this](const send_state& message) { guarded([&] { on_send_state(message); }); },
    [this](const load_state& message) { guarded([&] { on_load_state(message); }); },
  };
}

// -- set-up and begin --------------------------------------------------------------------------

void stage_state::on_set_up(const set_up& message) {
  trainer_ = caf::actor_cast<caf::actor>(self_->current_sender());
  epoch_ = message.epoch;
  seed_ = message.seed;
  endpoint_.open(work_.stream());
  work_.set_up(seed_);
  compat::tell(self_, trainer_, stage_ready{epoch_, config_->rank});
}

void stage_state::on_begin(const begin_step& message) {
  if (message.epoch <= aborted_epoch_)
    return; // The abort, being urgent, overtook it.
  step_ = message;
  run_ = &run_of(message);
  patient_until_ns_ = 0;
  const bool with_targets = message.purpose != kernels::nn::purpose::predict;
  run_->book.reset({.to_first = 1, .to_last = with_targets});
  tasks_.clear();
  work_.begin(message, run_->plan, seed_);
  phase_ = phase::running;
  enter(message.epoch);
  advance(now_ns());
}

/// Makes `epoch` the current one and notes what came for it ahead of the message that begins it.
void stage_state::enter(std::uint64_t epoch) {
  epoch_ = epoch;
  loose_.clear();
  const auto early = std::exchange(early_, {});
  for (const auto& what : early)
    on_arrived(what);
}

stage_state::run& stage_state::run_of(const begin_step& step) {
  if (step.purpose == kernels::nn::purpose::train)
    return training_;
  auto& cached = forward_runs_[step.micro_batches];
  if (cached == nullptr)
    cached = std::make_unique<run>(plan::forward_only(config_->training, step.micro_batches),
                                   config_->rank);
  return *cached;
}

// -- arrivals ----------------------------------------------------------------------------------

void stage_state::on_arrived(const net::transfer& what) {
  if (what.epoch <= aborted_epoch_)
    return;
  if (what.epoch != epoch_) {
    early_.push_back(what);
    return;
  }
  note(what);
  if (phase_ == phase::exchanging || phase_ == phase::installing)
    finish_exchange();
  else
    advance(now_ns());
}

void stage_state::note(const net::transfer& what) {
  if (what.payload == payload::twin || what.payload == payload::state)
    loose_.push_back({what, endpoint_.take(what, work_.stream().pool())});
  else
    run_->book.arrived(what.payload == payload::gradient ? task_kind::backward : task_kind::forward,
                       what.chunk, what.micro_batch);
}

// -- tasks -------------------------------------------------------------------------------------

/// Asks the rule and starts what it says. since_ns: when the device could have begun with it.
void stage_state::advance(std::int64_t since_ns) {
  while (phase_ == phase::running && enqueued_.size() <= look_ahead()) {
    const auto next = run_->book.next();
    if (next && waits_patiently())
      return;
    if (next)
      start(*next, since_ns);
    else if (enqueued_.empty() && run_->book.all_started())
      exchange_twins();
    else
      return;
  }
}

std::size_t stage_state::look_ahead() const {
  return static_cast<std::size_t>(
    run_->plan.by_rank[static_cast<std::size_t>(config_->rank)].look_ahead.value_or(0));
}

/// Whether to hope for the wanted input a little longer, in place of a stand-in: as long as the
/// device is busy, and then for what patience is left.
bool stage_state::waits_patiently() {
  if (!run_->book.next_stands_in())
    return false;
  if (!enqueued_.empty())
    return true;
  if (tasks_.empty())
    return false;
  const auto& last = tasks_.back();
  const auto until =
    last.end_ns
    + std::llround(plan::patient_for(static_cast<double>(config_->patience.count()),
                                     static_cast<double>(last.end_ns - last.start_ns)));
  const auto left = until - now_ns();
  if (left <= 0)
    return false;
  if (std::exchange(patient_until_ns_, until) != until)
    compat::tell_after(self_, self_, std::chrono::nanoseconds(left), look_again{epoch_});
  return true;
}

void stage_state::start(const plan::task& task, std::int64_t since_ns) {
  const bool split = run_->book.head(task.kind)->split;
  doing_ = task;
  tell(&step_events::before_task, task);
  if (!enqueued_.empty())
    since_ns = std::max(since_ns, enqueued_.back().due_ns);
  auto& made = enqueued_.emplace_back();
  made.run = {task, now_ns(), 0};
  work_.begin_task();
  made.results = compute(task);
  work_.end_task(task, made.results);
  run_->book.start(task);
  run_->book.finish(task); // for what follows it in the device's queue
  if (const auto what = transfer_of(task); what && what->to == config_->rank)
    endpoint_.send(*what, std::exchange(made.results, {}));
  doing_.reset();
  const auto more = config_->extra_time ? config_->extra_time(task, split) : caf::timespan{0};
  if (more <= caf::timespan{0} && since_ns <= now_ns()) {
    made.due_ns = now_ns();
    if (work_.stream().where().is_host())
      compat::tell(self_, self_, task_done{epoch_, task});
    else // The stage stays free for messages while the device works.
      work_.stream().where().when_done(
        [to = caf::actor_cast<caf::actor>(self_), done = task_done{epoch_, task}] {
          compat::anon_tell(to, done);
        });
    return;
  }
  // Counted from when the device was free, so that a busy device does not add up the lateness of
  // the timers; what messages take stays in.
  made.due_ns = since_ns + std::chrono::nanoseconds(more).count();
  compat::tell_after(self_, self_, std::chrono::nanoseconds(made.due_ns - now_ns()),
                     task_done{epoch_, task});
}

/// Takes the task's inputs from the endpoint and runs it; returns what other ranks get.
kernels::tensor_list stage_state::compute(const plan::task& task) {
  auto& pool = work_.stream().pool();
  const auto take = [&](payload kind, std::int32_t from) {
    return endpoint_.take({epoch_, kind, from, config_->rank, task.chunk, task.micro_batch}, pool);
  };
  const auto entry = *run_->book.head(task.kind);
  const auto sources = run_->links.sources(task.chunk);
  const auto targets = run_->links.targets(task.chunk);
  switch (task.kind) {
  case task_kind::forward:
    break;
  case task_kind::backward:
    return work_.backward(entry, targets.empty()
                                   ? kernels::tensor_list{}
                                   : take(payload::gradient, rank_of_chunk(targets.front())));
  case task_kind::weight:
    work_.weight(entry);
    return {};
  case task_kind::update:
    work_.update(entry);
    return {};
  }
  auto inputs = sources.empty() ? take(payload::input, trainer_rank())
                                : take(payload::activation, rank_of_chunk(sources.front()));
  if (targets.empty() && step_.purpose != kernels::nn::purpose::predict)
    for (auto& target : take(payload::target, trainer_rank()))
      inputs.push_back(std::move(target));
  return work_.forward(entry, std::move(inputs));
}

void stage_state::on_task_done(const task_done& message) {
  if (enqueued_.empty() || message.epoch != epoch_)
    return; // Of a step that failed here while the device was still at it.
  auto done = std::move(enqueued_.front()); // A device ends its tasks in their order.
  enqueued_.pop_front();
  // One that waited in the device's queue began when the one before it ended.
  if (!tasks_.empty())
    done.run.start_ns = std::max(done.run.start_ns, tasks_.back().end_ns);
  done.run.end_ns = now_ns();
  tasks_.push_back(done.run);
  if (abort_pending_) {
    if (enqueued_.empty())
      finish_abort();
    return;
  }
  doing_ = done.run.what;
  tell(&step_events::after_task, done.run.what);
  if (const auto what = transfer_of(done.run.what); what && what->to != config_->rank)
    endpoint_.send(*what, std::move(done.results));
  doing_.reset();
  advance(done.due_ns);
}

/// By which name what a task gives travels, if anybody needs it.
std::optional<net::transfer> stage_state::transfer_of(const plan::task& task) const {
  net::transfer what{epoch_, payload::activation, config_->rank, 0, 0, task.micro_batch};
  const auto receivers = run_->links.receivers(task.kind, task.chunk);
  if (!receivers.empty()) {
    what.payload = task.kind == task_kind::forward ? payload::activation : payload::gradient;
    what.chunk = receivers.front();
    what.to = rank_of_chunk(what.chunk);
  } else if (task.kind == task_kind::forward && step_.purpose == kernels::nn::purpose::predict) {
    what.payload = payload::output;
    what.chunk = task.chunk;
    what.to = trainer_rank();
  } else {
    return std::nullopt;
  }
  return what;
}

// -- what embedders are told -------------------------------------------------------------------

void stage_state::tell(std::function<void(const task_event&)> step_events::*which,
                       const plan::task& what) const {
  if (config_->events != nullptr && (*config_->events).*which)
    ((*config_->events).*which)({config_->rank, what, step_.step, step_.purpose});
}

void stage_state::tell_gradients() {
  if (config_->events == nullptr || !config_->events->gradients_ready)
    return;
  const auto leads = work_.parameters().leads();
  config_->events->gradients_ready(config_->rank, {leads, {}});
}

// -- the end of a step -------------------------------------------------------------------------

/// Sends this rank's gradients of shared parameters to their other holders.
void stage_state::exchange_twins() {
  phase_ = phase::exchanging;
  if (exchanges_twins()) {
    const auto twins = work_.own_twins();
    work_.stream().where().wait();
    for (const auto& twin : twins)
      for (const auto to :
           config_->shared[static_cast<std::size_t>(twin.parameter)].other_ranks(config_->rank))
        endpoint_.send({epoch_, payload::twin, config_->rank, to, twin.parameter, twin.ordinal},
                       {twin.gradient});
  }
  finish_exchange();
}

/// An asynchronous plan has made its updates already.
bool stage_state::exchanges_twins() const {
  return step_.purpose == kernels::nn::purpose::train && !run_->plan.asynchronous;
}

/// Goes on once everything that travels outside the plan has arrived.
void stage_state::finish_exchange() {
  if (phase_ == phase::installing) {
    if (loose_.size() < installing_.size())
      return;
    for (const auto& each : loose_)
      work_.parameters().install(
        work_.stream(), installing_.at(static_cast<std::size_t>(each.what.chunk)), each.tensors);
    loose_.clear();
    phase_ = phase::idle;
    compat::tell(self_, trainer_, state_installed{epoch_, config_->rank});
    return;
  }
  const bool exchanges = exchanges_twins();
  if (exchanges && loose_.size() < work_.parameters().foreign_twins())
    return;
  stage_done answer{epoch_, config_->rank, work_.losses(), {}, tasks_, {}};
  if (exchanges) {
    std::vector<parameter_set::twin> received;
    for (auto& each : loose_)
      received.push_back({each.what.chunk, each.what.micro_batch, std::move(each.tensors.front())});
    loose_.clear();
    work_.parameters().combine(work_.stream(), std::move(received));
    tell_gradients();
    answer.squares = work_.parameters().squares(work_.stream());
  }
  work_.end();
  answer.memory = work_.memory();
  phase_ = phase::idle;
  compat::tell(self_, trainer_, std::move(answer));
}

// -- aborts ------------------------------------------------------------------------------------

void stage_state::on_abort(const abort_step& message) {
  if (!trainer_) // Another rank's set-up failed, and the abort, being urgent, overtook ours.
    trainer_ = caf::actor_cast<caf::actor>(self_->current_sender());
  aborted_epoch_ = std::max(aborted_epoch_, message.epoch);
  if (phase_ != phase::failed)
    interrupted_ = waits_for();
  if (enqueued_.empty())
    finish_abort();
  else
    abort_pending_ = true; // The device still works.
}

void stage_state::finish_abort() {
  abort_pending_ = false;
  phase_ = phase::idle;
  loose_.clear();
  std::erase_if(early_, [&](const auto& what) { return what.epoch <= aborted_epoch_; });
  endpoint_.forget(aborted_epoch_);
  work_.abandon();
  compat::tell(self_, trainer_, step_aborted{aborted_epoch_, config_->rank, interrupted_});
}

// -- parameters to and from the trainer --------------------------------------------------------

void stage_state::on_send_state(const send_state& message) {
  epoch_ = message.epoch;
  work_.stream().where().wait(); // for an update that may be under way
  const auto names = work_.parameters().owned_names();
  for (std::size_t i = 0; i < names.size(); ++i)
    endpoint_.send(
      {epoch_, payload::state, config_->rank, trainer_rank(), static_cast<std::int32_t>(i), 0},
      work_.parameters().state_of(names[i]));
  compat::tell(self_, trainer_,
               state_names{epoch_, config_->rank, names, work_.parameters().optimizer_slots()});
}

void stage_state::on_load_state(const load_state& message) {
  installing_ = message.parameters;
  phase_ = phase::installing;
  enter(message.epoch);
  if (phase_ == phase::installing) // Else all had come before this message.
    finish_exchange();
}

// -- reports -----------------------------------------------------------------------------------

/// The task that something failed in. What a device fails with shows when the next task is
/// enqueued behind it: then both are named.
std::string stage_state::doing() const {
  if (!doing_)
    return enqueued_.empty() ? "" : plan::to_string(enqueued_.front().run.what);
  const auto named = plan::to_string(*doing_);
  const bool enqueues = !enqueued_.empty() && enqueued_.back().run.what == *doing_;
  return enqueues && enqueued_.size() > 1
         ? fmt::format("{}, enqueued behind {}", named, plan::to_string(enqueued_.front().run.what))
         : named;
}

std::string stage_state::waits_for() const {
  if (!enqueued_.empty())
    return fmt::format("rank {} runs {}", config_->rank,
                       plan::to_string(enqueued_.front().run.what));
  if (phase_ == phase::exchanging)
    return fmt::format("rank {} waits for the other gradients of {} shared parameters",
                       config_->rank, work_.parameters().foreign_twins() - loose_.size());
  if (phase_ != phase::running)
    return fmt::format("rank {} waits for the trainer", config_->rank);
  return fmt::format("rank {} waits; {}", config_->rank, run_->book.waits_for());
}

std::int32_t stage_state::rank_of_chunk(std::int32_t chunk) const {
  return run_->plan.chunks[static_cast<std::size_t>(chunk)].rank;
}

std::int64_t stage_state::now_ns() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
           self_->clock().now().time_since_epoch())
    .count();
}

caf::actor spawn_stage(caf::actor_system& system, std::shared_ptr<stage_config> config,
                       bool detached) {
  using stage_actor = caf::stateful_actor<stage_state>;
  return detached ? system.spawn<stage_actor, caf::detached>(std::move(config))
                  : system.spawn<stage_actor>(std::move(config));
}

} // namespace sluice::actors
