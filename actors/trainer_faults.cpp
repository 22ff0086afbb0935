#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/trainer.hpp"
#include "actors/trainer_messages.hpp"

/// How a trainer aborts what fails, and how it notices. See trainer.cpp for the rest.

namespace sluice::actors {

using kernels::nn::purpose;

/// Aborts the running operation on all stages, then answers it with the first thing that failed.
void trainer_state::fail(const std::string& what) {
  if (running_ == nullptr || !running_->failure.empty())
    return;
  running_->failure = fmt::format("{}: {}", running_->name, what);
  running_->progressed = self_->clock().now();
  running_->waiting.assign(lost_.size(), false);
  running_->waiting_count = 0;
  running_->all_answered = [this] { give_up(); };
  endpoint_.forget(running_->epoch);
  for (std::size_t rank = 0; rank < lost_.size(); ++rank) {
    if (lost_[rank])
      continue;
    running_->waiting[rank] = true;
    ++running_->waiting_count;
    compat::tell_urgent(self_, config_->stages[rank], abort_step{running_->epoch});
  }
  if (running_->waiting_count == 0)
    go_on();
}

void trainer_state::give_up() {
  if (broken_.empty() && purpose_ == purpose::train && config_->training.asynchronous)
    broken_ = running_->failure
            + "; an asynchronous step that fails leaves the weights between two "
              "steps: continue from the last checkpoint";
  if (broken_.empty() && running_->applying)
    broken_ = running_->failure
            + "; some stages may have made the update and others not: continue from the last "
              "checkpoint";
  if (!broken_.empty())
    running_->failure += what_was_interrupted();
  const auto code = broken_.empty() ? caf::sec::runtime_error : unusable;
  if (running_->promise.pending())
    running_->promise.deliver(caf::make_error(code, running_->failure));
  else
    broken_ = running_->failure; // The set-up failed.
  next_request();
}

/// Which stages are lost, and what those that are left were at: how far the step had come.
std::string trainer_state::what_was_interrupted() const {
  std::string text;
  for (std::size_t rank = 0; rank < lost_.size(); ++rank)
    if (lost_[rank] && !config_->places.empty())
      text += fmt::format("{}{} on {}", text.empty() ? "; lost: rank " : ", ", rank,
                          config_->places[rank].empty() ? "this process" : config_->places[rank]);
  bool first = true;
  for (const auto& each : running_->interrupted)
    if (!each.empty())
      text += (std::exchange(first, false) ? "; when it was aborted, " : " | ") + each;
  return text;
}

/// A network lives until its first fault, and the pipeline with it.
void trainer_state::channel_lost(const std::string& what) {
  if (broken_.empty())
    broken_ = fmt::format("a channel is lost: {}", what);
  fail(what);
}

void trainer_state::stage_lost(std::int32_t rank, const caf::error& reason) {
  lost_[static_cast<std::size_t>(rank)] = true;
  const auto& place =
    config_->places.empty() ? std::string{} : config_->places[static_cast<std::size_t>(rank)];
  broken_ = place.empty()
            ? fmt::format("the stage of rank {} has ended ({})", rank, caf::to_string(reason))
            : fmt::format("the stage of rank {} on the worker {} is lost: {}", rank, place,
                          reason == caf::exit_reason::remote_link_unreachable
                            ? "no connection to the worker any more"
                            : caf::to_string(reason));
  if (running_ == nullptr)
    return;
  if (running_->failure.empty())
    fail(broken_);
  else
    answered(running_->epoch, rank); // It will not answer the abort.
}

void trainer_state::start_watch() {
  compat::tell_after(self_, self_, config_->deadline / 4, tick{running_->epoch});
}

/// Asks every stage how it is doing; without progress until the deadline, says who waits for what.
void trainer_state::on_tick() {
  const auto idle = self_->clock().now() - running_->progressed;
  if (idle >= config_->deadline) {
    for (std::size_t rank = 0; rank < running_->described.size(); ++rank)
      if (running_->described[rank].empty())
        running_->described[rank] = fmt::format("rank {} does not answer", rank);
    const auto stall = fmt::format("no progress for {} ms: {}", config_->deadline.count(),
                                   fmt::join(running_->described, " | "));
    if (running_->failure.empty()) {
      if (!config_->places.empty() && broken_.empty())
        broken_ = stall; // A link may be silent without being closed.
      fail(stall);
    } else {
      running_->failure += "; the abort did not end either: " + stall;
      broken_ = running_->failure;
      give_up();
      return;
    }
  } else {
    std::ranges::fill(running_->described, std::string{});
    for (const auto& stage : config_->stages)
      compat::tell_urgent(self_, stage, describe{running_->epoch});
  }
  start_watch();
}

void trainer_state::on_description(const description& message) {
  if (running_ == nullptr || message.epoch != running_->epoch)
    return;
  const auto rank = static_cast<std::size_t>(message.rank);
  running_->described[rank] = message.waits_for;
  if (std::exchange(running_->tasks_done[rank], message.tasks_done) != message.tasks_done)
    running_->progressed = self_->clock().now();
}

} // namespace sluice::actors
