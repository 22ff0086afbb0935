#pragma once

#include <memory>
#include <stdexcept>
#include <utility>

#include "actors/pipeline.hpp"
#include "actors/trainer_messages.hpp"

#if CAF_MAJOR_VERSION >= 1
#include <caf/detail/test_coordinator.hpp>
#else
#include <caf/scheduler/test_coordinator.hpp>
#endif

namespace sluice::tests {

#if CAF_MAJOR_VERSION >= 1
using test_coordinator = caf::detail::test_coordinator;
#else
using test_coordinator = caf::scheduler::test_coordinator;
#endif

/// An actor system without threads and with a clock of its own: the test runs every message, and
/// time passes only when nothing else is left to do. Emulated tasks end exactly when they should.
class stepped_system {
public:
  stepped_system() : system_(config_) {}

  /// The pipeline's actors must be pooled to be stepped: this sets `detached` and `system`.
  actors::pipeline start(actors::pipeline_options options) {
    options.system = &system_;
    options.detached = false;
    return actors::pipeline(std::move(options));
  }

  /// Sends a request to the trainer and steps until the answer is there.
  /// Errors: std::runtime_error with the text of an error answer.
  template <class Answer, class Request>
  Answer ask(actors::pipeline& line, Request request) {
    return ask<Answer>(line.trainer(), std::move(request));
  }

  /// The same of any actor.
  template <class Answer, class Request>
  Answer ask(const caf::actor& whom, Request request) {
    caf::scoped_actor self{system_};
    auto pending = actors::compat::ask(self.ptr(), whom, caf::infinite, std::move(request));
    while (self->mailbox().size() == 0) {
      scheduler().run();
      if (self->mailbox().size() == 0 && !scheduler().clock().trigger_timeout())
        throw std::logic_error("it waits for ever");
    }
    Answer result{};
    std::string failure;
    std::move(pending).receive(
      [&](Answer& answer) { result = std::move(answer); },
      [&](const caf::error& problem) { failure = caf::to_string(problem); });
    if (!failure.empty())
      throw std::runtime_error(failure);
    return result;
  }

  actors::step_report train(actors::pipeline& line, actors::batch data) {
    return ask<actors::step_report>(
      line, actors::train_batch{std::make_shared<const actors::batch>(std::move(data))});
  }

  /// Call it before a pipeline goes: from here on messages run where they are sent.
  void let_run() { scheduler().inline_all_enqueues(); }

  caf::actor_system& system() { return system_; }

  test_coordinator& scheduler() { return static_cast<test_coordinator&>(system_.scheduler()); }

private:
  struct testing_config : caf::actor_system_config {
    testing_config() {
      actors::register_messages();
      set("caf.scheduler.policy", "testing");
    }
  };

  testing_config config_;
  caf::actor_system system_;
};

} // namespace sluice::tests
