#include "actors/host_system.hpp"

#include <doctest/doctest.h>

#include "actors/meeting.hpp"
#include "actors/text_of.hpp"
#include "actors/worker.hpp"
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

} // namespace

TEST_CASE("a trainer of another version is refused at the control port with both numbers") {
  const listening_worker there;
  CHECK(ask<worker_offer>(there.at, worker_hello{99})
        == "it speaks version 1 of the control protocol, not 99: run the same version of Sluice "
           "everywhere");
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
        == "rank 0 speaks version 1 of the control protocol, not 99: run the same version of "
           "Sluice everywhere");
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
