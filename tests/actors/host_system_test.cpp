#include "actors/host_system.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/crew.hpp"
#include "actors/meeting.hpp"
#include "actors/model_layout.hpp"
#include "actors/plan/make_plan.hpp"
#include "actors/text_of.hpp"
#include "actors/worker.hpp"
#include "kernels/arithmetic.hpp"
#include "tests/net/raw_peer.hpp"

// Control messages over real connections of this host.

using namespace sluice;
using namespace sluice::actors;

namespace {

constexpr std::chrono::seconds patience{10};

/// A worker that listens, as `sluice worker` does.
struct listening_worker {
  listening_worker() : worker(hosts.system(), config()) {
    at.port = hosts.publish(worker.actor(), at);
  }

  static std::shared_ptr<const worker_config> config() {
    auto made = std::make_shared<worker_config>();
    made->name = "there";
    made->stages = 2;
    return made;
  }

  host_system hosts{host_options{}};
  scoped_worker worker;
  net::address at{"127.0.0.1", 0, {}};
};

/// Asks over the network; the name that is offered, or the refusal.
template <class Answer, class Question>
std::string ask(const net::address& at, Question question) {
  host_system hosts{host_options{}};
  const auto whom = hosts.dial(at, patience);
  caf::scoped_actor self{hosts.system()};
  std::string heard;
  compat::ask(self.ptr(), whom, patience, std::move(question))
    .receive(
      [&](const Answer& answer) {
        if constexpr (requires { answer.name; })
          heard = answer.name;
      },
      [&](const caf::error& why) { heard = text_of(why); });
  return heard;
}

enum class request : std::uint8_t { lease, start, end };

/// A worker that keeps to the protocol until one request, which it takes and then ends. The reply
/// that it owes is kept, so that its end alone tells of it.
struct mortal_worker {
  explicit mortal_worker(request last) : last(last) {
    actor = hosts.system().spawn([this](caf::event_based_actor* self) -> caf::behavior {
      return {
        [](const worker_hello&) {
          return worker_offer{.name = "mortal", .stages = 2, .arithmetic = kernels::arithmetic()};
        },
        [=, this](const lease_request&) {
          return take(self, request::lease, lease_grant{.tensor_port = 1});
        },
        [=, this](const start_run&) {
          return take(self, request::start, caf::make_error(caf::sec::runtime_error, "not today"));
        },
        [=, this](const end_lease&) { return take(self, request::end, lease_ended{}); },
      };
    });
    at.port = hosts.publish(actor, at);
  }

  ~mortal_worker() {
    caf::scoped_actor self{hosts.system()};
    self->send_exit(actor, caf::exit_reason::kill);
    self->wait_for(actor);
  }

  template <class Answer>
  caf::response_promise take(caf::event_based_actor* self, request which, Answer answer) {
    auto promise = self->make_response_promise();
    if (which == last) {
      owed = promise;
      self->quit(caf::exit_reason::kill);
    } else {
      promise.deliver(std::move(answer));
    }
    return promise;
  }

  host_system hosts{host_options{}};
  request last;
  caf::response_promise owed;
  caf::actor actor;
  net::address at{"127.0.0.1", 0, {}};
};

/// What a trainer hears that hires one worker for two stages, and lets it go.
std::string failure_to_hire(const net::address& at) {
  constexpr std::chrono::hours never{1};
  const stage_recipe recipe{
    .plan = plan::make_plan("1f1b", {.stages = 2, .micro_batches = 3}),
    .model = {.kind = "mlp", .vocabulary = 4, .layers = 3, .width = 8, .length = 4},
    .cut = {2, 2}};
  crew workers({.workers = {net::to_string(at)},
                .hosts = {.fault_deadline = never},
                .request_deadline = never});
  CHECK(workers.call(call_for::work, patience)[0].problem == "");
  try {
    workers.hire_for(recipe, {}, std::vector<std::string>(2, net::to_string(at)));
  } catch (const std::runtime_error& why) {
    return why.what();
  }
  return "";
}

} // namespace

TEST_CASE("a trainer of another version is refused at the control port with both numbers") {
  const listening_worker there;
  CHECK(
    ask<worker_offer>(there.at, worker_hello{99})
    == fmt::format("it speaks version {} of the control protocol, not 99: run the same version of "
                   "Sluice everywhere",
                   control_version));
  CHECK(ask<worker_offer>(there.at, worker_hello{}) == "there");
}

TEST_CASE("a process of another version is refused where a launched run meets") {
  const net::address at{"127.0.0.1",
                        [] {
                          host_system probe{host_options{}};
                          const scoped_worker any(probe.system(), listening_worker::config());
                          return probe.publish(any.actor(), {"127.0.0.1", 0, {}});
                        }(),
                        {}};
  meeting_place place(host_options{}, at, 2);
  CHECK(ask<joined_run>(at, join_run{.version = 99, .rank = 1, .address = "127.0.0.1:1"})
        == fmt::format("rank 0 speaks version {} of the control protocol, not 99: run the same "
                       "version of Sluice everywhere",
                       control_version));
  CHECK(ask<joined_run>(at, join_run{.rank = 1, .address = "127.0.0.1:1"}) == "");
  place.end("");
}

TEST_CASE("peers that connect and say nothing, or half a message, hold up nobody") {
  const listening_worker there;
  std::vector<std::unique_ptr<net::test::raw_peer>> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(std::make_unique<net::test::raw_peer>(net::to_string(there.at)));
    if (i % 2 == 0)
      REQUIRE(silent.back()->write(std::string_view("\0\0\0", 3)));
  }
  CHECK(ask<worker_offer>(there.at, worker_hello{}) == "there");
}

TEST_CASE("a worker that ends between a request and its reply is an error at once, never silence") {
  request last{};
  const char* heard = "is gone";
  SUBCASE("for a lease") {
    last = request::lease;
  }
  SUBCASE("to start the run") {
    last = request::start;
  }
  SUBCASE("to end the lease") {
    last = request::end;
    heard = "not today"; // of the start; that the worker is let go does not wait for its reply
  }
  const mortal_worker there(last);
  const auto failure = failure_to_hire(there.at);
  CAPTURE(failure);
  CHECK(failure.find(net::to_string(there.at)) != std::string::npos);
  CHECK(failure.find(heard) != std::string::npos);
}
