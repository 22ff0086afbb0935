// The other process is a real one here, and it is really killed.

#include <fmt/format.h>

#include "tests/net/child.hpp"
#include "tests/net/cluster.hpp"
#include "tests/net/peer_edges.hpp"

using namespace sluice::net;
using namespace sluice::net::test;
using std::chrono::steady_clock;

namespace {

std::string hexadecimal(const run_token& token) {
  std::string digits;
  for (const auto each : token)
    digits += fmt::format("{:02x}", std::to_integer<int>(each));
  return digits;
}

// Rank 0, in this process, and rank 1 in a child.
struct pair {
  explicit pair(const std::string& mode, const std::string& listen = "127.0.0.1:0")
    : run{make_run_token(), {0}, {}, peer_edges(), 20s},
      peer({SLUICE_NET_PEER, listen, own->address(), hexadecimal(run.token), mode}) {
    run.peers = {{1, peer.line()}};
  }

  void connect() {
    own->connect(run);
    own->at(0).listen(heard.events());
  }
  void send(std::int32_t micro_batch, std::int64_t elements) {
    own->at(0).send(activation(0, 1, micro_batch), {counting(pool, elements)});
  }
  transfer echo(std::int32_t micro_batch) const {
    return {1, payload::gradient, 1, 0, 0, micro_batch};
  }

  buffer_pool pool{make_cpu_device()};
  listener heard;
  std::unique_ptr<tcp_network> own = std::make_unique<tcp_network>();
  tcp_run run;
  child peer;
};

} // namespace

TEST_CASE("a peer killed during transfers is noticed in time, named, and reported once") {
  std::string mode = "echo";
  std::int64_t elements = 1000;
  SUBCASE("small frames") {}
  SUBCASE("large frames") {
    elements = 4'000'000;
  }
  SUBCASE("a peer that takes nothing") {
    mode = "mute";
    elements = 4'000'000;
  }
  pair on(mode);
  on.connect();
  for (std::int32_t i = 0; i < 8; ++i)
    on.send(i, elements);
  if (mode == "echo") {
    REQUIRE(on.heard.waits_for(on.echo(0)));
    for (std::int32_t i = 0; i < 2; ++i) {
      REQUIRE(on.heard.waits_for(on.echo(i)));
      on.own->at(0).take(on.echo(i), on.pool);
    }
  } else {
    REQUIRE(on.peer.line() == "connected");
  }
  const auto killed = steady_clock::now();
  on.peer.kill();
  REQUIRE(on.heard.waits_for_failure());
  CHECK(steady_clock::now() - killed < 2s);
  const auto text = on.heard.failures().front();
  INFO(text);
  CHECK(text.find("rank 1 at " + on.run.peers[1] + ": the ") == 0);
  CHECK(text.find("from rank ") != std::string::npos);
  // What waits is released, what is sent from now on is dropped, and nothing is reported again.
  on.send(100, 10);
  CHECK(eventually([&] { return on.pool.usage().live_total_bytes == 0; }));
  on.own.reset();
  CHECK(on.heard.failures().size() == 1);
}

TEST_CASE("a peer killed while connections are made ends the start with its name") {
  SUBCASE("before it has answered") {
    pair on("deaf");
    on.run.deadline = 1s;
    auto end = std::make_shared<std::promise<std::string>>();
    on.own->start(on.run, [end](const std::string& problem) { end->set_value(problem); });
    on.peer.kill();
    const auto begun = steady_clock::now();
    const auto text = end->get_future().get();
    CHECK(steady_clock::now() - begun < 3s);
    CHECK(
      text
      == fmt::format("2 of 2 connections were not made within 1 s; rank 1 at {}: the activations "
                     "for chunk 1, from rank 0 to rank 1: Connection refused",
                     on.run.peers[1]));
  }
  SUBCASE("when some of its connections are made") {
    pair on("half");
    auto end = std::make_shared<std::promise<std::string>>();
    on.own->start(on.run, [end](const std::string& problem) { end->set_value(problem); });
    REQUIRE(on.peer.line() == "connected");
    const auto killed = steady_clock::now();
    on.peer.kill();
    const auto text = end->get_future().get();
    CHECK(steady_clock::now() - killed < 2s);
    CHECK(text.find("rank 1 at " + on.run.peers[1]
                    + ": the activations for chunk 1, from rank 0 to "
                      "rank 1: ")
          == 0);
  }
  SUBCASE("at random moments, 20 times") {
    for (int round = 0; round < 20; ++round) {
      pair on("echo");
      on.run.deadline = 500ms;
      auto end = std::make_shared<std::promise<std::string>>();
      on.own->start(on.run, [end](const std::string& problem) { end->set_value(problem); });
      std::this_thread::sleep_for(std::chrono::microseconds(round * 200));
      on.peer.kill();
      const auto text = end->get_future().get();
      if (text.empty()) {
        on.own->at(0).listen(on.heard.events());
        REQUIRE(on.heard.waits_for_failure());
      } else {
        CHECK(text.find("rank 1 at " + on.run.peers[1]) != std::string::npos);
      }
    }
  }
}

TEST_CASE("a process that is killed and restarted on the same port joins again, 20 times") {
  std::string port = "127.0.0.1:0";
  for (int round = 0; round < 20; ++round) {
    pair on("echo", port);
    port = on.run.peers[1];
    REQUIRE(port.find("127.0.0.1:") == 0);
    on.connect();
    for (std::int32_t i = 0; i < 5; ++i) {
      on.send(i, 5000);
      REQUIRE(on.heard.waits_for(on.echo(i)));
      on.own->at(0).take(on.echo(i), on.pool);
    }
    on.peer.kill();
    REQUIRE(on.heard.waits_for_failure());
  }
}
