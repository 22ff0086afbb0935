#include "actors/meeting.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
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

caf::behavior host_behavior(caf::event_based_actor* self, std::shared_ptr<guest_list> list) {
  self->set_error_handler([](const caf::error&) {});
  return {[list](const join_run& message) -> caf::result<joined_run> {
    const auto refuse = [](const std::string& why) {
      return caf::make_error(caf::sec::invalid_argument, why);
    };
    if (message.version != control_version)
      return refuse(fmt::format("rank 0 speaks version {} of the control protocol, not {}",
                                control_version, message.version));
    if (message.rank < 1 || message.rank >= list->processes)
      return refuse(fmt::format("rank {} of {} processes", message.rank, list->processes));
    const std::lock_guard lock(list->guard);
    if (!list->addresses.emplace(message.rank, message.address.substr(0, 300)).second)
      return refuse(fmt::format("rank {} has joined already", message.rank));
    list->changed.notify_all();
    return joined_run{list->processes};
  }};
}

} // namespace

struct meeting_place::implementation {
  explicit implementation(const host_options& options) : hosts(options) {}

  host_system hosts;
  std::shared_ptr<guest_list> list = std::make_shared<guest_list>();
  caf::actor host;
};

meeting_place::meeting_place(const host_options& options, const net::address& at,
                             std::int32_t processes)
  : impl_(std::make_unique<implementation>(options)) {
  impl_->list->processes = processes;
  impl_->host = impl_->hosts.system().spawn(host_behavior, impl_->list);
  impl_->hosts.publish(impl_->host, at);
}

meeting_place::~meeting_place() {
  caf::scoped_actor self{impl_->hosts.system()};
  self->send_exit(impl_->host, caf::exit_reason::user_shutdown);
  self->wait_for(impl_->host);
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
  const auto place = hosts.dial(at, deadline);
  caf::scoped_actor self{hosts.system()};
  compat::ask(self.ptr(), place, deadline, join_run{.rank = rank, .address = own_address})
    .receive([](const joined_run&) {},
             [](const caf::error& why) { throw std::runtime_error(text_of(why)); });
  self->monitor(place);
  std::string ended;
  self->receive([&](const caf::down_msg& down) {
    if (down.reason != caf::exit_reason::user_shutdown)
      ended = caf::to_string(down.reason);
  });
  return ended;
}

} // namespace sluice::actors
