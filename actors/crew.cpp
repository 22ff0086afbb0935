#include "actors/crew.hpp"

#include <algorithm>
#include <future>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "actors/text_of.hpp"
#include "net/probe.hpp"

namespace sluice::actors {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

std::int64_t now_ns(caf::actor_system& system) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
           system.clock().now().time_since_epoch())
    .count();
}

} // namespace

struct crew::implementation {
  explicit implementation(crew_options from)
    : options(std::move(from)),
      hosts(options.hosts),
      recruiter(hosts.system().spawn<caf::stateful_actor<recruiter_state>>()) {
    for (const auto& each : options.workers)
      known.push_back({each, {}, {}, 0});
  }

  ~implementation() {
    caf::scoped_actor self{hosts.system()};
    if (network) // Otherwise there is nothing to let go.
      // No time-out here: the recruiter has one for each worker.
      compat::ask(self.ptr(), recruiter, caf::infinite, dismiss{})
        .receive([](caf::unit_t) {}, [](const caf::error&) {});
    self->send_exit(recruiter, caf::exit_reason::user_shutdown);
    self->wait_for(recruiter);
  }

  std::string visit(known_worker& whom, call_for what, milliseconds deadline);
  std::string greet(known_worker& whom);
  std::string own_address_for(const known_worker& whom) const;

  crew_options options;
  host_system hosts;
  caf::actor recruiter;
  std::vector<known_worker> known;
  std::shared_ptr<net::tcp_network> network;
};

/// Why a worker cannot be had, or nothing.
std::string crew::implementation::visit(known_worker& whom, call_for what, milliseconds deadline) {
  const auto until = steady_clock::now() + deadline;
  for (std::string problem = "it did not answer";;) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
    if (left <= milliseconds{0})
      return problem;
    try {
      if (!whom.actor)
        whom.actor = hosts.dial(net::parse_address(whom.address), left);
      problem = greet(whom);
      if (problem.empty() && (what == call_for::presence || whom.offer.holder.empty()))
        return {};
      if (problem.empty())
        problem = fmt::format("it is busy: leased to {}", whom.offer.holder);
      else
        whom.actor = {};
    } catch (const std::runtime_error& why) {
      problem = why.what();
    }
    std::this_thread::sleep_for(std::min(left, milliseconds{50}));
  }
}

std::string crew::implementation::greet(known_worker& whom) {
  caf::scoped_actor self{hosts.system()};
  std::string problem;
  const auto before = now_ns(hosts.system());
  compat::ask(self.ptr(), whom.actor, std::min(options.hosts.fault_deadline, one_try),
              worker_hello{})
    .receive(
      [&](const worker_offer& offer) {
        whom.offer = offer;
        whom.clock_offset_ns = offer.now_ns - (before + now_ns(hosts.system())) / 2;
      },
      [&](const caf::error& why) {
        problem = why == caf::sec::request_timeout
                  ? "it takes connections but does not answer; one that is built with another "
                    "version of CAF cannot"
                  : text_of(why);
      });
  return problem;
}

/// The host part only matters where workers are on other hosts.
std::string crew::implementation::own_address_for(const known_worker& whom) const {
  const auto port = net::parse_address(network->address()).port;
  const auto host = net::local_host_towards(net::parse_address(whom.address));
  return net::to_string({host, port, {}});
}

crew::crew(crew_options options) : impl_(std::make_unique<implementation>(std::move(options))) {}

crew::~crew() = default;

caf::actor_system& crew::system() {
  return impl_->hosts.system();
}

std::vector<roll_entry> crew::call(call_for what, milliseconds deadline) {
  std::vector<std::future<std::string>> visits;
  for (auto& each : impl_->known)
    visits.push_back(std::async(std::launch::async,
                                [=, this, &each] { return impl_->visit(each, what, deadline); }));
  std::vector<roll_entry> roll;
  for (std::size_t i = 0; i < visits.size(); ++i) {
    auto problem = visits[i].get();
    roll.push_back({impl_->known[i].address, impl_->known[i].offer, std::move(problem)});
  }
  return roll;
}

crew_stages crew::hire_for(const stage_recipe& recipe, const std::vector<shared_parameter>& shared,
                           std::span<const std::string> placement) {
  auto& all = *impl_;
  auto order = std::make_shared<hire_order>();
  crew_stages result;
  const bool near = std::ranges::all_of(all.known, [](const known_worker& each) {
    return net::is_this_host_only(net::parse_address(each.address));
  });
  net::tcp_options tensors{.listen = near ? "127.0.0.1:0" : "0.0.0.0:0"};
  tensors.tls = all.options.hosts.tls;
  tensors.checksum = all.options.checksum;
  tensors.silence = all.options.hosts.fault_deadline;
  all.network = std::make_shared<net::tcp_network>(tensors);
  for (const auto& place : placement) {
    const auto found = std::ranges::find(all.known, place, &known_worker::address);
    const bool local = place == "local";
    if (!local && (found == all.known.end() || !found->actor))
      throw std::runtime_error(fmt::format("the worker {} is not there", place));
    order->placement.push_back(local ? nullptr : &*found);
    result.places.push_back(local ? "" : place);
    result.clock_offsets_ns.push_back(local ? 0 : found->clock_offset_ns);
    if (!local)
      order->own_addresses.emplace(place, all.own_address_for(*found));
  }
  order->recipe = recipe;
  order->shared = shared;
  order->network = all.network;
  order->deadline = all.options.request_deadline;
  order->silence = all.options.hosts.fault_deadline;
  order->checksum = all.options.checksum;
  order->nccl = all.options.nccl;
  caf::scoped_actor self{all.hosts.system()};
  // No time-out here: the recruiter has the order's deadline for all that it waits for.
  compat::ask(self.ptr(), all.recruiter, caf::infinite, hire{order})
    .receive([&](hired& answer) { result.stages = std::move(answer.stages); },
             [&](const caf::error& why) { throw std::runtime_error(text_of(why)); });
  result.network = all.network;
  return result;
}

} // namespace sluice::actors
