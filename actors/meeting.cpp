#include "actors/meeting.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/text_of.hpp"
#include "actors/worker_messages.hpp"

namespace sluice::actors {

namespace {

/// Who has joined: written by the actor, waited for by the caller.
struct guest_list {
  std::mutex guard;
  std::condition_variable changed;
  std::int32_t processes = 0;
  std::map<std::int32_t, std::string> addresses; ///< by rank
};

/// The actor that is published at the meeting place.
class host_state {
public:
  host_state(caf::event_based_actor* self, std::shared_ptr<guest_list> list)
    : self_(self),
      list_(std::move(list)) {}

  caf::behavior make_behavior() {
    return compat::ignoring_errors(
      self_, [this](const join_run& message) { return join(message); },
      [this](const run_over& message) { return end(message); });
  }

private:
  /// Whoever did not get the answer asks again.
  caf::result<joined_run> join(const join_run& message) {
    const auto refuse = [](const std::string& why) {
      return caf::make_error(caf::sec::invalid_argument, why);
    };
    if (message.version != control_version)
      return refuse(fmt::format("rank 0 speaks version {} of the control protocol, not {}: run "
                                "the same version of Sluice everywhere",
                                control_version, message.version));
    if (message.rank < 1 || message.rank >= list_->processes)
      return refuse(fmt::format("rank {} of {} processes", message.rank, list_->processes));
    const auto address = message.address.substr(0, 300);
    const std::lock_guard lock(list_->guard);
    if (list_->addresses.emplace(message.rank, address).first->second != address)
      return refuse(fmt::format("rank {} has joined already", message.rank));
    guests_[message.rank] = caf::actor_cast<caf::actor>(self_->current_sender());
    if (over_)
      tell_over(message.rank);
    list_->changed.notify_all();
    return joined_run{list_->processes};
  }

  /// Answered when all guests know. One whose connection was lost comes again, and is told then.
  caf::result<caf::unit_t> end(const run_over& message) {
    if (guests_.empty())
      return caf::unit;
    over_ = message;
    ending_ = self_->make_response_promise();
    for (const auto& each : guests_)
      tell_over(each.first);
    return ending_;
  }

  void tell_over(std::int32_t rank) {
    compat::ask(self_, guests_.at(rank), one_try, *over_)
      .then(
        [this, rank](caf::unit_t) {
          guests_.erase(rank);
          if (guests_.empty() && ending_.pending())
            ending_.deliver(caf::unit);
        },
        [](const caf::error&) {});
  }

  caf::event_based_actor* self_;
  std::shared_ptr<guest_list> list_;
  std::map<std::int32_t, caf::actor> guests_; ///< who do not know yet that it is over, by rank
  std::optional<run_over> over_;
  caf::response_promise ending_;
};

} // namespace

struct meeting_place::implementation {
  explicit implementation(const host_options& options) : hosts(options) {}

  host_system hosts;
  std::shared_ptr<guest_list> list = std::make_shared<guest_list>();
  caf::actor host;
  std::chrono::milliseconds patience{};
  bool ended = false;
};

meeting_place::meeting_place(const host_options& options, const net::address& at,
                             std::int32_t processes)
  : impl_(std::make_unique<implementation>(options)) {
  impl_->list->processes = processes;
  impl_->patience = options.fault_deadline;
  impl_->host = impl_->hosts.system().spawn<caf::stateful_actor<host_state>>(impl_->list);
  impl_->hosts.publish(impl_->host, at);
}

meeting_place::~meeting_place() {
  if (!impl_->ended)
    end("rank 0 has failed");
  caf::scoped_actor self{impl_->hosts.system()};
  self->send_exit(impl_->host, caf::exit_reason::user_shutdown);
  self->wait_for(impl_->host);
}

void meeting_place::end(const std::string& problem) {
  impl_->ended = true;
  caf::scoped_actor self{impl_->hosts.system()};
  compat::ask(self.ptr(), impl_->host, impl_->patience, run_over{problem})
    .receive([](caf::unit_t) {}, [](const caf::error&) {}); // Who has not left finds out by itself.
}

std::vector<std::string> meeting_place::wait_for_all(std::chrono::milliseconds deadline) {
  auto& list = *impl_->list;
  const auto expected = static_cast<std::size_t>(list.processes - 1);
  std::unique_lock lock(list.guard);
  if (!list.changed.wait_for(lock, deadline, [&] { return list.addresses.size() == expected; })) {
    std::vector<std::int32_t> missing;
    for (std::int32_t rank = 1; rank < list.processes; ++rank)
      if (!list.addresses.contains(rank))
        missing.push_back(rank);
    throw std::runtime_error(fmt::format("of {} processes, rank{} {} did not join within {} s",
                                         list.processes, missing.size() == 1 ? "" : "s",
                                         fmt::join(missing, ", "),
                                         static_cast<double>(deadline.count()) / 1000));
  }
  std::vector<std::string> addresses;
  for (const auto& [rank, address] : list.addresses)
    addresses.push_back(address);
  return addresses;
}

std::string attend(host_system& hosts, const net::address& at, std::int32_t rank,
                   const std::string& own_address, std::chrono::milliseconds deadline) {
  using std::chrono::steady_clock;
  const auto until = steady_clock::now() + deadline;
  caf::scoped_actor self{hosts.system()};
  caf::actor place;
  for (bool joined = false; !joined;) {
    const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(until - steady_clock::now());
    const bool was_there = place != nullptr;
    try {
      place = hosts.dial(at, was_there ? std::min(left, 5 * one_try) : left);
    } catch (const std::runtime_error& why) {
      if (!was_there)
        throw;
      return fmt::format("rank 0 is gone ({})", why.what()); // Only its answer had been lost.
    }
    compat::ask(self.ptr(), place, one_try, join_run{.rank = rank, .address = own_address})
      .receive([&](const joined_run&) { joined = true; },
               [](const caf::error& why) {
                 if (why == caf::sec::invalid_argument)
                   throw std::runtime_error(text_of(why));
               });
  }
  self->monitor(place);
  std::string problem;
  // As long as the run: who is silent for the fault deadline counts as gone.
  bool told = false;
  const auto gone = [&](const caf::down_msg& down) {
    problem = fmt::format("rank 0 is gone ({})", caf::to_string(down.reason));
  };
  self->receive(
    [&](const run_over& message) {
      problem = message.problem;
      told = true;
      return caf::unit;
    },
    gone);
  if (told) // The answer must get out before this process does.
    self->receive([](const caf::down_msg&) {}, caf::after(one_try) >> [] {});
  return problem;
}

} // namespace sluice::actors
