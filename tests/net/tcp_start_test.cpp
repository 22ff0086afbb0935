#include <random>

#include <fcntl.h>

#include "tests/net/cluster.hpp"

using namespace sluice::net;
using namespace sluice::net::test;

namespace {

// Every edge of P ranks with V chunks each, placed like cards; and the trainer's, rank P.
std::vector<tcp_edge> edges_of_pipeline(std::int32_t ranks, std::int32_t chunks_per_rank) {
  const auto chunks = ranks * chunks_per_rank;
  std::vector<tcp_edge> all;
  for (std::int32_t chunk = 1; chunk < chunks; ++chunk) {
    const auto before = (chunk - 1) % ranks;
    const auto after = chunk % ranks;
    all.push_back({{payload::activation, before, after, chunk}, 2, {}});
    all.push_back({{payload::gradient, after, before, chunk - 1}, 2, {}});
  }
  all.push_back({{payload::input, ranks, 0, 0}, 2, {}});
  all.push_back({{payload::target, ranks, ranks - 1, chunks - 1}, 2, {}});
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    all.push_back({{payload::state, rank, ranks, every_chunk}, 8, {}});
    all.push_back({{payload::state, ranks, rank, every_chunk}, 8, {}});
  }
  return all;
}

std::string unix_address(const sluice::test::temporary_folder& in, std::int32_t rank) {
  return "unix:" + (in.path() / std::to_string(rank)).string();
}

} // namespace

TEST_CASE("processes that start in any order, each when it likes, are all connected: 50 seeds") {
  constexpr std::int32_t ranks = 5; // P = 4 with V = 2, and the trainer
  const auto edges = edges_of_pipeline(4, 2);
  for (unsigned seed = 0; seed < 50; ++seed) {
    const sluice::test::temporary_folder folder;
    const auto token = make_run_token();
    std::map<std::int32_t, std::string> peers;
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      peers[rank] = unix_address(folder, rank);
    std::vector<std::string> problems(ranks);
    std::vector<std::unique_ptr<tcp_network>> networks(ranks);
    std::vector<std::thread> processes;
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      processes.emplace_back([&, rank] {
        std::mt19937 random(seed * 100 + static_cast<unsigned>(rank));
        const auto pause = [&] {
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
        };
        const auto at = static_cast<std::size_t>(rank);
        pause();
        tcp_options options;
        options.listen = peers[rank];
        networks[at] = std::make_unique<tcp_network>(options);
        pause();
        try {
          networks[at]->connect({token, {rank}, peers, edges, std::chrono::milliseconds(patience)});
        } catch (const std::exception& problem) {
          problems[at] = problem.what();
        }
      });
    for (auto& each : processes)
      each.join();
    for (const auto& each : problems)
      REQUIRE(each == "");
    // Each edge carries what it should.
    buffer_pool pool(make_cpu_device());
    std::vector<listener> heard(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      networks[rank]->at(static_cast<std::int32_t>(rank)).listen(heard[rank].events());
    for (const auto& [which, slots, layout] : edges) {
      const transfer what{1, which.payload, which.from, which.to, which.chunk, 3};
      networks[static_cast<std::size_t>(which.from)]
        ->at(which.from)
        .send(what, {counting(pool, 5)});
      REQUIRE(heard[static_cast<std::size_t>(which.to)].waits_for(what));
    }
    networks.clear();
    for (auto& each : heard)
      CHECK(each.failures().empty());
  }
}

TEST_CASE("a peer that never comes is named when the deadline is over") {
  const sluice::test::temporary_folder folder;
  tcp_network alone;
  tcp_run run{make_run_token(), {0}, {{1, unix_address(folder, 1)}}, {}, 50ms};
  SUBCASE("to which this process connects") {
    run.edges = {activations(0, 1), gradients(1, 0)};
    CHECK_THROWS_WITH_AS(alone.connect(run),
                         ("2 of 2 connections were not made within 0.05 s; rank 1 at "
                          + run.peers[1]
                          + ": the activations for chunk 1, from rank 0 to rank 1: No such file or "
                            "directory")
                           .c_str(),
                         std::runtime_error);
  }
  SUBCASE("that should connect to this process") {
    run.edges = {gradients(1, 0)};
    CHECK_THROWS_WITH_AS(
      alone.connect(run),
      ("1 of 1 connections were not made within 0.05 s; rank 1 at " + run.peers[1]
       + ": the gradients for chunk 0, from rank 1 to rank 0: it did not connect")
        .c_str(),
      std::runtime_error);
  }
}

TEST_CASE("a peer that is still at another run is asked again until it is at this one") {
  const sluice::test::temporary_folder folder;
  tcp_network own;
  tcp_options there;
  there.listen = unix_address(folder, 1);
  auto old = std::make_unique<tcp_network>(there);
  tcp_run run{make_run_token(), {1}, {{0, own.address()}}, {activations(0, 1)}, 20s};
  auto before = run;
  before.token = make_run_token();
  old->start(before, [](const std::string&) {});
  run.hosted = {0};
  run.peers = {{1, there.listen}};
  SUBCASE("and then it is") {
    auto end = std::make_shared<std::promise<std::string>>();
    own.start(run, [end](const std::string& problem) { end->set_value(problem); });
    std::this_thread::sleep_for(20ms); // Time for a refusal; without one the test still holds.
    old.reset();
    tcp_network next(there);
    run.hosted = {1};
    run.peers = {{0, own.address()}};
    CHECK_NOTHROW(next.connect(run));
    CHECK(end->get_future().get() == "");
  }
  SUBCASE("or the deadline is over") {
    run.deadline = 50ms;
    CHECK_THROWS_WITH_AS(own.connect(run),
                         ("1 of 1 connections were not made within 0.05 s; rank 1 at "
                          + there.listen
                          + ": the activations for chunk 1, from rank 0 to rank 1: refused: the "
                            "token of another run")
                           .c_str(),
                         std::runtime_error);
  }
}

TEST_CASE(
  "a sender of 64 elements and a receiver of 128: both fail, with both, before a transfer") {
  cluster on({{0}, {1}}, {activations(0, 1)});
  auto sender = on.run_of(0);
  auto receiver = on.run_of(1);
  sender.edges[0].layout = "F32[64]";
  receiver.edges[0].layout = "F32[128]";
  auto one = on.start(0, sender);
  auto two = on.start(1, receiver);
  const std::string what = "the activations for chunk 1, from rank 0 to rank 1: F32[64] would be "
                           "sent, F32[128] is expected";
  CHECK(two.get() == "rank 0 at " + on.process(0).address() + ": " + what);
  const auto said = one.get();
  INFO(said);
  CHECK(said.find("rank 1 at " + on.process(1).address()) == 0);
  CHECK(said.find(what) != std::string::npos);
}

TEST_CASE("a run that cannot be is refused at once") {
  tcp_network own;
  tcp_run run{make_run_token(), {0}, {}, {activations(0, 1)}, 1s};
  std::string expected = "the activations for chunk 1, from rank 0 to rank 1: ";
  SUBCASE("no address") {
    expected += "no address is known for rank 1";
  }
  SUBCASE("no slot") {
    run.edges[0].slots = 0;
    expected += "at least one receive slot is needed";
  }
  SUBCASE("an edge twice") {
    run.peers = {{1, "127.0.0.1:1"}};
    run.edges.push_back(run.edges[0]);
    expected += "listed twice";
  }
  SUBCASE("no port") {
    run.peers = {{1, "nowhere"}};
    expected =
      "address 'nowhere': no host or no port; expected host:port, [ip6]:port or unix:/path";
  }
  CHECK_THROWS_WITH_AS(own.start(run, [](const std::string&) {}), expected.c_str(),
                       std::invalid_argument);
}

TEST_CASE("an address that is taken or none is an error that says so; a left-over socket is not") {
  const sluice::test::temporary_folder folder;
  const tcp_network first;
  tcp_options options;
  options.listen = first.address();
  CHECK_THROWS_WITH_AS(
    tcp_network{options},
    ("cannot listen at " + first.address() + ": bind: Address already in use").c_str(),
    std::runtime_error);
  options.listen = unix_address(folder, 0);
  {
    const tcp_network holds_it(options);
    CHECK_THROWS_AS(tcp_network{options}, std::runtime_error);
  }
  CHECK_FALSE(std::filesystem::exists(folder.path() / "0"));
  for (const auto* bad : {"here", ":1", "h:70000", "::1:5", "unix:", "h:1x"}) {
    options.listen = bad;
    CHECK_THROWS_AS(tcp_network{options}, std::invalid_argument);
  }
}

TEST_CASE("no program that this process starts inherits a socket") {
  cluster on({{0}, {1}}, {activations(0, 1), gradients(1, 0)});
  on.connect();
  std::size_t sockets = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (!std::filesystem::read_symlink(each, gone).string().starts_with("socket:"))
      continue;
    ++sockets;
    CHECK((::fcntl(std::stoi(each.path().filename()), F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(sockets >= 6);
}
