#pragma once

/// Everything that differs between CAF 0.18 and 1.x stands here; the rest of the code is written
/// once. CI builds it with 0.18.7; last tried with 1.1.0 on 2026-11-30 (docs/embedding.md).

#include <functional>
#include <map>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/error.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/type_id.hpp>

#if CAF_MAJOR_VERSION >= 1
#include <caf/anon_mail.hpp>
#endif

namespace sluice::actors::compat {

/// Sends a message from an actor.
template <class Self, class Receiver, class... Ts>
void tell(Self* self, const Receiver& to, Ts&&... values) {
#if CAF_MAJOR_VERSION >= 1
  self->mail(std::forward<Ts>(values)...).send(to);
#else
  self->send(to, std::forward<Ts>(values)...);
#endif
}

/// Sends a message that overtakes the ordinary ones in the receiver's mailbox.
template <class Self, class Receiver, class... Ts>
void tell_urgent(Self* self, const Receiver& to, Ts&&... values) {
#if CAF_MAJOR_VERSION >= 1
  self->mail(std::forward<Ts>(values)...).urgent().send(to);
#else
  self->template send<caf::message_priority::high>(to, std::forward<Ts>(values)...);
#endif
}

/// Sends a message after a delay on the actor system's clock.
template <class Self, class Receiver, class... Ts>
void tell_after(Self* self, const Receiver& to, caf::timespan delay, Ts&&... values) {
#if CAF_MAJOR_VERSION >= 1
  self->mail(std::forward<Ts>(values)...).delay(delay).send(to);
#else
  self->delayed_send(to, delay, std::forward<Ts>(values)...);
#endif
}

/// Sends a message from a thread that is no actor's.
template <class Receiver, class... Ts>
void anon_tell(const Receiver& to, Ts&&... values) {
#if CAF_MAJOR_VERSION >= 1
  caf::anon_mail(std::forward<Ts>(values)...).send(to);
#else
  caf::anon_send(to, std::forward<Ts>(values)...);
#endif
}

/// Sends a request; call .then() (actors) or .receive() (scoped actors) on the result.
template <class Self, class Receiver, class... Ts>
[[nodiscard]] auto ask(Self* self, const Receiver& to, caf::timespan timeout, Ts&&... values) {
#if CAF_MAJOR_VERSION >= 1
  return self->mail(std::forward<Ts>(values)...).request(to, timeout);
#else
  return self->request(to, timeout, std::forward<Ts>(values)...);
#endif
}

/// The behavior of an actor that an error message does not end, as it would by default.
template <class Self, class... Handlers>
[[nodiscard]] caf::behavior ignoring_errors(Self* self, Handlers... handlers) {
#if CAF_MAJOR_VERSION >= 1
  (void)self;
  return {std::move(handlers)..., [](const caf::error&) {}};
#else
  self->set_error_handler([](const caf::error&) {});
  return {std::move(handlers)...};
#endif
}

/// Calls back, within the actor, when another actor has ended, and at once if it already had.
/// One per actor, kept in its state.
class watcher {
public:
  template <class Self, class Handle>
  void watch(Self* self, const Handle& whom, std::function<void(const caf::error&)> ended) {
#if CAF_MAJOR_VERSION >= 1
    self->monitor(whom, std::move(ended));
#else
    if (callbacks_.empty())
      self->set_down_handler([this](caf::down_msg& down) {
        const auto found = callbacks_.find(down.source);
        if (found == callbacks_.end())
          return;
        const auto callback = std::move(found->second);
        callbacks_.erase(found);
        callback(down.reason);
      });
    callbacks_.emplace(whom.address(), std::move(ended));
    self->monitor(whom);
#endif
  }

#if CAF_MAJOR_VERSION < 1
private:
  std::map<caf::actor_addr, std::function<void(const caf::error&)>> callbacks_;
#endif
};

} // namespace sluice::actors::compat
