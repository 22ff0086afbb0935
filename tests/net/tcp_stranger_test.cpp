#include <fstream>
#include <random>

#include <unistd.h>

#include "net/little_endian.hpp"
#include "tests/net/certificates.hpp"
#include "tests/net/cluster.hpp"
#include "tests/net/frames.hpp"
#include "tests/net/raw_peer.hpp"

using namespace sluice::net;
using namespace sluice::net::test;

namespace {

// Two processes that are connected, of which the second is attacked.
struct attacked {
  explicit attacked(tcp_options options = {})
    : on({{0}, {1}}, {activations(0, 1), gradients(1, 0)}, options) {
    on.connect();
    port = on.process(1).address();
  }

  // Members still reach each other.
  void check_alive() {
    on.at(0).send(activation(0, 1, ++sent), {counting(pool, 1000)});
    REQUIRE(on.heard_by(1).waits_for(activation(0, 1, sent)));
    on.at(1).take(activation(0, 1, sent), pool);
    CHECK(on.heard_by(0).failures().empty());
    CHECK(on.heard_by(1).failures().empty());
  }

  std::size_t logged(std::string_view part) {
    const auto lines = on.log();
    return static_cast<std::size_t>(std::ranges::count_if(
      lines, [&](const auto& line) { return line.find(part) != std::string::npos; }));
  }

  cluster on;
  buffer_pool pool{make_cpu_device()};
  std::string port;
  std::int32_t sent = 0;
};

std::size_t resident_bytes() {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

} // namespace

TEST_CASE("a peer that does not speak the protocol is told so, and logged once") {
  attacked at;
  for (int i = 0; i < 5; ++i) {
    raw_peer stranger(at.port);
    REQUIRE(stranger.write("GET / HTTP/1.1\r\nHost: here\r\n\r\n"));
    const auto reply = stranger.read_answer();
    CHECK(reply.verdict == verdict::another_protocol);
    CHECK(reply.text == "this is not Sluice's tensor protocol");
    CHECK(stranger.read().empty()); // And it was closed.
  }
  CHECK(at.logged("not Sluice's tensor protocol") == 1);
  at.check_alive();
}

TEST_CASE("another version, another run, an unknown or a taken edge are refused with the reason") {
  attacked at;
  hello greeting{at.on.token(), {payload::activation, 0, 1, 1}, {}};
  auto bytes = encode(greeting);
  auto expected = verdict::already_connected;
  std::string text = "the activations for chunk 1, from rank 0 to rank 1 are connected already";
  SUBCASE("taken") {}
  SUBCASE("version") {
    put_at<std::uint16_t>(bytes, 8, 2);
    expected = verdict::another_version;
    text = "protocol version 2, here is version 1";
  }
  SUBCASE("run") {
    greeting.token[3] ^= std::byte{1};
    bytes = encode(greeting);
    expected = verdict::another_run;
    text = "the token of another run";
  }
  SUBCASE("edge") {
    greeting.what.chunk = 9;
    bytes = encode(greeting);
    expected = verdict::unknown_edge;
    text = "the activations for chunk 9, from rank 0 to rank 1 are not received here";
  }
  raw_peer stranger(at.port);
  REQUIRE(stranger.write(bytes));
  const auto reply = stranger.read_answer();
  CHECK(reply.verdict == expected);
  CHECK(reply.text == text);
  CHECK(at.logged(text) == 1);
  at.check_alive();
}

TEST_CASE("10,000 random and broken greetings at the port: refused, in bounded memory") {
  tcp_options options;
  options.strangers = 32;
  attacked at(options);
  std::mt19937_64 random(11);
  const auto good = encode(hello{at.on.token(), {payload::activation, 0, 1, 1}, "F32[3]"});
  const auto before = resident_bytes();
  for (int round = 0; round < 10'000; ++round) {
    auto bytes = good;
    switch (round % 4) {
    case 0:
      bytes.resize(1 + random() % 600);
      for (auto& each : bytes)
        each = static_cast<std::byte>(random());
      break;
    case 1:
      bytes.resize(random() % bytes.size());
      break;
    case 2:
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1U << random() % 8);
      break;
    case 3:
      bytes.resize(12);
      bytes.resize(12 + random() % 600, std::byte{0x55});
      break;
    }
    raw_peer stranger(at.port);
    stranger.write(bytes);
    if (round % 100 == 0)
      at.check_alive();
  }
  at.check_alive();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(resident_bytes() < before + (std::size_t{16} << 20));
#endif
  CHECK(at.on.log().size() <= 101);
}

TEST_CASE("a member that sends no frames is cut off, once, by its name") {
  std::mt19937_64 random(5);
  buffer_pool pool(make_cpu_device());
  for (int round = 0; round < 30; ++round) {
    // Only process 1 is real; the test is rank 0.
    listener heard; // Outlives the network that calls it.
    tcp_network real;
    auto end = std::make_shared<std::promise<std::string>>();
    tcp_run run{make_run_token(), {1}, {{0, "127.0.0.1:1"}}, {activations(0, 1)}, patience};
    real.start(run, [end](const std::string& problem) { end->set_value(problem); });
    raw_peer member(real.address());
    REQUIRE(member.write(encode(hello{run.token, run.edges[0].edge, {}})));
    REQUIRE(member.read_answer().verdict == verdict::welcome);
    REQUIRE(end->get_future().get() == "");
    real.at(1).listen(heard.events());

    const auto good = encoded({frame_kind::data, activation(0, 1), {counting(pool, 100)}, 0}, true);
    auto bytes = good;
    std::string expected;
    switch (round % 6) {
    case 0:
      for (auto& each : bytes)
        each = static_cast<std::byte>(random());
      expected = "no frame begins here";
      break;
    case 1:
      bytes[random() % bytes.size()] ^= std::byte{1};
      break;
    case 2:
      bytes.resize(200);
      expected = "the peer closed the connection in the middle of the activation for chunk 1";
      break;
    case 3:
      bytes = encoded({frame_kind::data, {1, payload::gradient, 0, 1, 1, 0}, {}, 0});
      expected = "came where the activations for chunk 1, from rank 0 to rank 1 are expected";
      break;
    case 4:
      bytes.insert(bytes.end(), good.begin(), good.end());
      expected = "was sent without a receive slot";
      break;
    case 5:
      bytes.clear();
      expected = "the peer closed the connection";
      break;
    }
    member.write(bytes);
    ::shutdown(member.handle(), SHUT_WR);
    REQUIRE(heard.waits_for_failure());
    CHECK(heard.failures().front().find("rank 0 at 127.0.0.1:1: the activations for chunk 1, from "
                                        "rank 0 to rank 1: "
                                        + (round % 6 == 0 || round % 6 == 5 ? expected : ""))
          == 0);
    CHECK(heard.failures().front().find(expected) != std::string::npos);
    CHECK(heard.failures().size() == 1);
  }
}

TEST_CASE("what comes twice is refused as a fault of its sender") {
  listener heard;
  tcp_network real;
  auto end = std::make_shared<std::promise<std::string>>();
  tcp_run run{make_run_token(), {1}, {{0, "127.0.0.1:1"}}, {activations(0, 1, 4)}, patience};
  real.start(run, [end](const std::string& problem) { end->set_value(problem); });
  raw_peer member(real.address());
  REQUIRE(member.write(encode(hello{run.token, run.edges[0].edge, {}})));
  REQUIRE(member.read_answer().slots == 4);
  REQUIRE(end->get_future().get() == "");
  real.at(1).listen(heard.events());
  const auto bytes = encoded({frame_kind::data, activation(0, 1), {}, 0});
  member.write(bytes);
  member.write(bytes);
  REQUIRE(heard.waits_for_failure());
  CHECK(heard.failures().front().find("arrived twice: the activation for chunk 1")
        != std::string::npos);
}

TEST_CASE("whoever takes too long for its greeting is closed, and holds up nobody") {
  tcp_options options;
  options.greeting_deadline = 100ms;
  options.strangers = 8;
  attacked at(options);
  const auto bytes = encode(hello{at.on.token(), {payload::activation, 0, 1, 1}, {}});
  raw_peer silent(at.port);
  raw_peer slow(at.port);
  std::thread dripping([&] {
    // A byte now and then does not move the deadline.
    for (std::size_t i = 0; i < 40 && slow.write(std::span(bytes).subspan(i, 1)); ++i)
      std::this_thread::sleep_for(20ms);
  });
  CHECK(silent.read().empty());
  CHECK(slow.read().empty());
  dripping.join();
  CHECK(at.logged("no greeting came in time") == 1);
  at.check_alive();

  std::vector<std::unique_ptr<raw_peer>> crowd;
  for (int i = 0; i < 20; ++i)
    crowd.push_back(std::make_unique<raw_peer>(at.port));
  at.check_alive();
  CHECK(crowd.front()->read().empty());
  CHECK(eventually([&] { return at.logged("too many greetings at a time") == 1; }));
}

TEST_CASE("with TLS, nobody without a certificate of the authority gets in or hears the protocol") {
  const certificates made;
  tcp_options options;
  options.tls = made.good();
  attacked at(options);
  at.check_alive();
  SUBCASE("plain bytes, even a right greeting, get no answer of the protocol") {
    raw_peer stranger(at.port);
    stranger.write(encode(hello{at.on.token(), {payload::activation, 0, 1, 1}, {}}));
    const auto reply = stranger.read();
    CHECK(reply.size() < 24);
    CHECK(std::ranges::search(reply, std::as_bytes(std::span("SLUIC", 5))).empty());
    CHECK(eventually([&] { return at.logged("TLS: ") == 1; }));
  }
  SUBCASE("100 times noise") {
    std::mt19937_64 random(1);
    for (int i = 0; i < 100; ++i) {
      std::vector<std::byte> bytes(100);
      for (auto& each : bytes)
        each = static_cast<std::byte>(random());
      raw_peer(at.port).write(bytes);
    }
  }
  at.check_alive();
}

TEST_CASE("a certificate of another authority, or none, ends the start with the reason") {
  const certificates made;
  tcp_options server;
  server.tls = made.good();
  auto client = server;
  std::string said_by_client = "TLS: ";
  SUBCASE("another authority") {
    client.tls = made.of_another_authority();
  }
  SUBCASE("none: TLS by one end only") {
    client.tls.reset();
    said_by_client = "before its answer (does it want TLS?)";
  }
  SUBCASE("the peer's certificate is of another authority") {
    std::swap(server, client);
    server.tls = made.of_another_authority();
  }
  cluster on({{0}, {1}}, {activations(0, 1)}, {client, server});
  auto run = on.run_of(0);
  run.deadline = 2s;
  auto there = on.start(1, on.run_of(1));
  auto here = on.start(0, run);
  const auto problem = here.get();
  INFO(problem);
  CHECK(problem.find("rank 1 at 127.0.0.1:") != std::string::npos);
  CHECK(problem.find(said_by_client) != std::string::npos);
  on.end(1);
}

TEST_CASE("without TLS a port for other hosts is refused unless the network is trusted") {
  tcp_options options;
  options.listen = "0.0.0.0:0";
  CHECK_THROWS_WITH_AS(tcp_network{options},
                       "cannot listen at 0.0.0.0:0: other hosts may connect only with TLS",
                       std::runtime_error);
  options.trust_the_network = true;
  CHECK_NOTHROW(tcp_network{options});
  options.trust_the_network = false;
  const certificates made;
  options.tls = made.good();
  CHECK_NOTHROW(tcp_network{options});
  options.tls->key = made.file("nothing");
  CHECK_THROWS_WITH_AS(
    tcp_network{options},
    ("cannot read the key " + made.file("nothing") + ": No such file or directory").c_str(),
    std::runtime_error);
}
