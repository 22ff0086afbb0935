#include "actors/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "actors/plan/make_plan.hpp"
#include "actors/trainer_messages.hpp"

namespace sluice::actors {

using kernels::nn::purpose;
using net::payload;

trainer_state::trainer_state(caf::event_based_actor* self, std::shared_ptr<trainer_config> config)
  : self_(self),
    config_(std::move(config)),
    endpoint_(config_->network->at(config_->training.ranks)),
    pool_(kernels::make_cpu_device()),
    lost_(config_->stages.size(), false) {}

caf::behavior trainer_state::make_behavior() {
  endpoint_.listen({
    .arrived = [to = caf::actor_cast<caf::actor>(self_)](
                 const net::transfer& what) { compat::anon_tell(to, arrived{what}); },
    .failed = [to = caf::actor_cast<caf::actor>(self_)](
                const std::string& what) { compat::anon_tell(to, channel_failed{what}); },
  });
  for (std::size_t rank = 0; rank < config_->stages.size(); ++rank)
    watcher_.watch(self_, config_->stages[rank], [this, rank](const caf::error& reason) {
      stage_lost(static_cast<std::int32_t>(rank), reason);
    });
  queue_.push_back(
    {"set-up", {}, [this] {
       to_all(set_up{epoch_, config_->seed}, [this] { finish(caf::make_message()); });
     }});
  next_request();
  const auto run = [this](purpose why) {
    return [this, why](const auto& request) { run_batch(why, request.data); };
  };
  return {
    [run = run(purpose::train)](const train_batch& message) { run(message); },
    [run = run(purpose::evaluate)](const evaluate_batch& message) { run(message); },
    [run = run(purpose::predict)](const predict_batch& message) { run(message); },
    [this](const fetch_state&) {
      request(fmt::format("fetching the weights after step {}", step_), [this] { fetch(); });
    },
    [this](const install_state& message) {
      request("installing the weights", [this, state = message.state] { install(*state); });
    },
    [this](const stage_ready& message) { answered(message.epoch, message.rank); },
    [this](stage_done& message) {
      if (running_ == nullptr || message.epoch != running_->epoch)
        return;
      const auto rank = message.rank;
      done_[static_cast<std::size_t>(rank)] = std::move(message);
      answered(running_->epoch, rank);
    },
    [this](const stage_applied& message) { answered(message.epoch, message.rank); },
    [this](const step_aborted& message) {
      if (running_ != nullptr && message.epoch == running_->epoch)
        running_->interrupted[static_cast<std::size_t>(message.rank)] = message.interrupted;
      answered(message.epoch, message.rank);
    },
    [this](const state_installed& message) { answered(message.epoch, message.rank); },
    [this](state_names& message) {
      if (running_ == nullptr || message.epoch != running_->epoch)
        return;
      const auto rank = message.rank;
      outputs_expected_ += message.parameters.size();
      states_[static_cast<std::size_t>(rank)] = std::move(message);
      answered(running_->epoch, rank);
    },
    [this](const stage_failed& message) {
      if (message.lasting)
        channel_lost(message.what);
      else if (running_ != nullptr && message.epoch == running_->epoch)
        fail(message.what);
    },
    [this](const channel_failed& message) { channel_lost("the trainer: " + message.what); },
    [this](const arrived& message) {
      if (running_ == nullptr || message.what.epoch != running_->epoch
          || !running_->failure.empty())
        return;
      outputs_.push_back({message.what, endpoint_.take(message.what, pool_)});
      if (running_->waiting_count == 0)
        go_on();
    },
    [this](const description& message) { on_description(message); },
    [this](const tick& message) {
      if (running_ != nullptr && message.epoch == running_->epoch)
        on_tick();
    },
  };
}

// -- one request at a time ---------------------------------------------------------------------

void trainer_state::request(std::string name, std::function<void()> begin) {
  queue_.push_back({std::move(name), self_->make_response_promise(), std::move(begin)});
  if (running_ == nullptr)
    next_request();
}

void trainer_state::next_request() {
  running_.reset();
  data_.reset();
  if (queue_.empty())
    return;
  auto next = std::move(queue_.front());
  queue_.erase(queue_.begin());
  const auto ranks = config_->stages.size();
  running_ = std::make_unique<operation>();
  running_->name = std::move(next.name);
  running_->promise = std::move(next.promise);
  running_->epoch = ++epoch_;
  running_->started = running_->progressed = self_->clock().now();
  running_->tasks_done.assign(ranks, 0);
  running_->described.assign(ranks, {});
  running_->interrupted.assign(ranks, {});
  outputs_.clear();
  outputs_expected_ = 0;
  done_.assign(ranks, {});
  states_.assign(ranks, {});
  const auto refuse = [this](caf::sec code, const std::string& why) {
    running_->promise.deliver(caf::make_error(code, why));
    next_request();
  };
  if (!broken_.empty()) {
    refuse(unusable, fmt::format("{}: not begun: {}", running_->name, broken_));
    return;
  }
  start_watch();
  try {
    next.begin();
  } catch (const std::exception& problem) {
    // Nothing has been sent to a stage yet, so there is nothing to abort.
    refuse(caf::sec::invalid_argument, problem.what());
  }
}

template <class Message>
void trainer_state::to_all(const Message& message, std::function<void()> all_answered) {
  running_->waiting.assign(config_->stages.size(), true);
  running_->waiting_count = config_->stages.size();
  running_->all_answered = std::move(all_answered);
  for (const auto& stage : config_->stages)
    compat::tell(self_, stage, message);
}

void trainer_state::answered(std::uint64_t epoch, std::int32_t rank) {
  if (running_ == nullptr || epoch != running_->epoch)
    return;
  auto waiting = running_->waiting.begin() + rank;
  if (!*waiting)
    return;
  *waiting = false;
  running_->progressed = self_->clock().now();
  if (--running_->waiting_count == 0)
    go_on();
}

/// Calls a copy, since the operation may end, and with it its members, within the call.
void trainer_state::go_on() {
  const auto next = running_->all_answered;
  next();
}

void trainer_state::finish(caf::message answer) {
  // The set-up has no promise: nobody asked for it.
  if (running_->promise.pending())
    running_->promise.deliver(std::move(answer));
  next_request();
}

// -- batches -----------------------------------------------------------------------------------

void trainer_state::run_batch(purpose why, const std::shared_ptr<const batch>& data) {
  static constexpr std::array names{"step", "evaluation after step", "prediction after step"};
  const auto step = why == purpose::train ? step_ + 1 : step_; // from 1, as progress bars count
  request(fmt::format("{} {}", names.at(static_cast<std::size_t>(why)), step), [this, why, data] {
    check(*data, why);
    data_ = data;
    purpose_ = why;
    valid_targets_ = 0;
    begin_step begin{.epoch = epoch_,
                     .step = step_,
                     .purpose = why,
                     .micro_batches = static_cast<std::int32_t>(data->size())};
    std::int64_t samples = 0;
    for (const auto& part : *data) {
      begin.first_samples.push_back(samples);
      samples += part.samples;
      valid_targets_ += part.valid_targets;
    }
    begin.loss_scales = loss_scales(*data);
    begin.learning_rate = config_->learning_rate(step_);
    report_ = step_report{.step = step_, .valid_targets = valid_targets_};
    to_all(begin,
           [this] { purpose_ == purpose::predict ? finish_prediction() : finish_training(); });
    if (why == purpose::predict)
      outputs_expected_ = data->size();
    feed(*data);
  });
}

void trainer_state::check(const batch& data, purpose why) const {
  const auto planned = static_cast<std::size_t>(config_->training.micro_batches);
  if (why == purpose::train && data.size() != planned)
    throw std::invalid_argument(fmt::format(
      "step {}: the plan runs {} micro-batches a step, the batch has {}; no weight was changed",
      step_, planned, data.size()));
  if (data.empty())
    throw std::invalid_argument("a batch without micro-batches");
  for (std::size_t i = 0; i < data.size(); ++i)
    if (data[i].inputs.empty() || (why != purpose::predict && data[i].targets.empty()))
      throw std::invalid_argument(
        fmt::format("micro-batch {} has no {}", i, data[i].inputs.empty() ? "inputs" : "targets"));
}

/// What each loss is divided by, applied once, in the backward of the loss: the valid targets of
/// all micro-batches that one update sums. A sum without a valid target has gradient 0.
std::vector<double> trainer_state::loss_scales(const batch& data) const {
  // An asynchronous plan has several updates a step, at the same micro-batches on each rank.
  std::vector<std::size_t> ends;
  if (config_->training.asynchronous && purpose_ == purpose::train)
    for (const auto& update : config_->training.by_rank.front().updates)
      ends.push_back(static_cast<std::size_t>(update.micro_batch) + 1);
  else
    ends.push_back(data.size());
  std::vector<double> scales(data.size());
  std::size_t begin = 0;
  for (const auto end : ends) {
    std::int64_t valid = 0;
    for (auto m = begin; m < end; ++m)
      valid += data[m].valid_targets;
    std::fill(scales.begin() + static_cast<std::ptrdiff_t>(begin),
              scales.begin() + static_cast<std::ptrdiff_t>(end),
              valid > 0 ? 1.0 / static_cast<double>(valid) : 0.0);
    begin = end;
  }
  return scales;
}

/// Sends inputs to the first chunks and targets to the last, to each in the order of its lane:
/// where receive slots are bounded, one that is wanted later must not be in the way.
void trainer_state::feed(const batch& data) {
  const auto& training = config_->training;
  const auto evaluation = purpose_ == purpose::train
                          ? plan::plan{}
                          : plan::forward_only(training, static_cast<std::int32_t>(data.size()));
  const auto& runs = purpose_ == purpose::train ? training : evaluation;
  const auto send_all = [&](payload kind, std::int32_t chunk,
                            kernels::tensor_list batch_part::*which) {
    const auto to = runs.chunks[static_cast<std::size_t>(chunk)].rank;
    for (const auto& entry : runs.by_rank[static_cast<std::size_t>(to)].forwards)
      if (entry.chunk == chunk)
        endpoint_.send({epoch_, kind, runs.ranks, to, chunk, entry.micro_batch},
                       data[static_cast<std::size_t>(entry.micro_batch)].*which);
  };
  for (const auto& route : runs.routes) {
    send_all(payload::input, route.front(), &batch_part::inputs);
    if (purpose_ != purpose::predict)
      send_all(payload::target, route.back(), &batch_part::targets);
  }
}

double trainer_state::mean_loss() const {
  // So that the order of the sum is fixed, wherever the losses are.
  std::map<std::pair<std::int32_t, std::int32_t>, double> losses;
  for (const auto& stage : done_)
    for (const auto& each : stage.losses)
      losses[{each.micro_batch, each.which}] = each.sum;
  double sum = 0;
  for (const auto& [place, loss] : losses)
    sum += loss;
  return valid_targets_ > 0 ? sum / static_cast<double>(valid_targets_) : 0.0;
}

/// All tasks have run everywhere: decides on the update and has it made.
void trainer_state::finish_training() {
  report_.loss = mean_loss();
  std::map<std::string, double> squares; // In the order of the names, whoever holds them.
  for (const auto& stage : done_)
    for (const auto& each : stage.squares)
      squares[each.parameter] += each.sum;
  double sum = 0;
  for (const auto& [name, square] : squares)
    sum += square;
  report_.gradient_norm = std::sqrt(sum);
  set_clocks();
  summarise(report_, std::exchange(done_, {}));
  if (purpose_ == purpose::evaluate) {
    end_step();
    return;
  }
  if (config_->training.asynchronous) { // The stages have made their updates.
    report_.learning_rate = config_->learning_rate(step_);
    ++step_;
    end_step();
    return;
  }
  if (!std::isfinite(report_.gradient_norm)) {
    report_.skipped = true;
    ++step_;
    end_step();
    return;
  }
  if (config_->clip > 0 && report_.gradient_norm > config_->clip)
    report_.gradient_scale = config_->clip / report_.gradient_norm;
  report_.learning_rate = config_->learning_rate(step_);
  running_->applying = true;
  to_all(apply{epoch_, step_, report_.learning_rate, report_.gradient_scale}, [this] {
    ++step_;
    end_step();
  });
}

/// Puts the times of all stages on this process's clock.
void trainer_state::set_clocks() {
  for (std::size_t rank = 0; rank < config_->clock_offsets_ns.size(); ++rank)
    for (auto& task : done_[rank].tasks) {
      task.start_ns -= config_->clock_offsets_ns[rank];
      task.end_ns -= config_->clock_offsets_ns[rank];
    }
}

/// Nothing can be undone any more: a callback that throws fails the request, not the step.
void trainer_state::end_step() {
  const std::chrono::duration<double> taken = self_->clock().now() - running_->started;
  report_.seconds = taken.count();
  try {
    if (purpose_ == purpose::train && config_->events && config_->events->step_done)
      config_->events->step_done(report_);
  } catch (const std::exception& problem) {
    running_->promise.deliver(
      caf::make_error(caf::sec::runtime_error, fmt::format("{}: done, but its callback failed: {}",
                                                           running_->name, problem.what())));
    next_request();
    return;
  }
  finish(caf::make_message(std::move(report_)));
}

void trainer_state::finish_prediction() {
  if (outputs_.size() < outputs_expected_)
    return;
  prediction answer;
  answer.outputs.resize(outputs_.size());
  for (auto& each : outputs_)
    answer.outputs.at(static_cast<std::size_t>(each.what.micro_batch)) = std::move(each.tensors);
  finish(caf::make_message(std::move(answer)));
}

// -- weights -----------------------------------------------------------------------------------

void trainer_state::fetch() {
  to_all(send_state{epoch_}, [this] { finish_fetch(); });
}

void trainer_state::finish_fetch() {
  if (outputs_.size() < outputs_expected_)
    return;
  auto state = std::make_shared<model_state>();
  state->step = step_;
  for (const auto& names : states_)
    if (!names.optimizer_slots.empty())
      state->optimizer_slots = names.optimizer_slots;
  for (auto& each : outputs_) {
    const auto& names = states_.at(static_cast<std::size_t>(each.what.from)).parameters;
    state->parameters.push_back(
      {names.at(static_cast<std::size_t>(each.what.chunk)), std::move(each.tensors)});
  }
  std::ranges::sort(state->parameters, {}, &named_state::name);
  finish(caf::make_message(std::shared_ptr<const model_state>(std::move(state))));
}

void trainer_state::install(const model_state& state) {
  std::map<std::string, const named_state*> given;
  for (const auto& each : state.parameters)
    given[each.name] = &each;
  std::size_t used = 0;
  std::map<std::string, bool> wanted;
  for (const auto& names : config_->names)
    for (const auto& name : names)
      wanted[name] = given.contains(name);
  for (const auto& [name, found] : wanted) {
    used += found ? 1 : 0;
    if (!found)
      throw std::invalid_argument(fmt::format("the parameter {} is missing", name));
  }
  if (used != given.size())
    for (const auto& [name, tensors] : given)
      if (!wanted.contains(name))
        throw std::invalid_argument(fmt::format("the model has no parameter {}", name));

  running_->waiting.assign(config_->stages.size(), true);
  running_->waiting_count = config_->stages.size();
  running_->all_answered = [this, step = state.step] {
    step_ = step;
    finish(caf::make_message(caf::unit));
  };
  for (std::size_t rank = 0; rank < config_->stages.size(); ++rank) {
    const auto& names = config_->names[rank];
    compat::tell(self_, config_->stages[rank], load_state{epoch_, names});
    for (std::size_t i = 0; i < names.size(); ++i)
      endpoint_.send({epoch_, payload::state, config_->training.ranks,
                      static_cast<std::int32_t>(rank), static_cast<std::int32_t>(i), 0},
                     given.at(names[i])->tensors);
  }
}

caf::actor spawn_trainer(caf::actor_system& system, std::shared_ptr<trainer_config> config) {
  return system.spawn<caf::stateful_actor<trainer_state>>(std::move(config));
}

} // namespace sluice::actors
