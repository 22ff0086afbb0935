#include "net/loopback.hpp"

#include <cmath>
#include <thread>

#include "tests/net/fixtures.hpp"

using namespace sluice::net;
using namespace sluice::net::test;

namespace {

// Three ranks; rank 1 and rank 2 listen.
struct loopback {
  explicit loopback(loopback_options options) : ranks(make_loopback_network(3, options)) {
    ranks->at(1).listen(at_one.events());
    ranks->at(2).listen(at_two.events());
  }

  void send(const transfer& what) {
    ranks->at(what.from).send(what, {counting(sender, 16, static_cast<float>(what.micro_batch))});
  }
  float take(const transfer& what) {
    return ranks->at(what.to).take(what, receiver)[0].data<float>()[0];
  }

  // The network passes what it may pass in the order in which that became possible, so when this
  // has arrived, everything before it has, unless it was held back.
  void pass_marker() {
    const auto marker = activation(0, 2, ++markers_, 1000);
    send(marker);
    REQUIRE(at_two.waits_for(marker));
    take(marker);
  }

  buffer_pool sender{make_cpu_device()};
  buffer_pool receiver{make_cpu_device()};
  listener at_one;
  listener at_two;
  std::unique_ptr<network> ranks;

private:
  std::int32_t markers_ = 0;
};

} // namespace

TEST_CASE("a send ends only when its receive runs: the receiver's slots bound what lies there") {
  std::int32_t slots = 1;
  SUBCASE("one slot") {}
  SUBCASE("three slots") {
    slots = 3;
  }
  loopback on({.slots = slots});
  for (std::int32_t i = 0; i < 6; ++i)
    on.send(activation(0, 1, i));
  on.pass_marker();
  for (std::int32_t i = 0; i < 6; ++i) {
    CHECK(on.at_one.arrived().size() == static_cast<std::size_t>(std::min(i + slots, 6)));
    CHECK(on.take(activation(0, 1, i)) == static_cast<float>(i));
    on.pass_marker();
  }
}

TEST_CASE("what waits for a slot stays charged to its sender") {
  loopback on({.slots = 1});
  on.send(activation(0, 1, 0));
  on.send(activation(0, 1, 1));
  on.pass_marker();
  CHECK(on.sender.usage().live_total_bytes >= 64);
  on.take(activation(0, 1, 0));
  REQUIRE(on.at_one.waits_for(activation(0, 1, 1)));
  on.pass_marker(); // The channel drops its handles after it has told of the arrival.
  on.take(activation(0, 1, 1));
  on.pass_marker();
  CHECK(on.receiver.usage().live_total_bytes == 0);
}

TEST_CASE("an edge whose receiver takes nothing does not hold up another one") {
  loopback on({.slots = 1});
  for (std::int32_t i = 0; i < 3; ++i)
    on.send(activation(0, 1, i));
  transfer other = activation(0, 1, 0);
  SUBCASE("of another chunk") {
    other.chunk = 5;
  }
  SUBCASE("of another kind") {
    other.payload = payload::gradient;
  }
  SUBCASE("from another rank") {
    other.from = 2;
  }
  on.send(other);
  CHECK(on.at_one.waits_for(other));
  CHECK_FALSE(on.at_one.has(activation(0, 1, 1)));
}

TEST_CASE("a slow edge does not delay another one") {
  loopback on({.slots = 1, .latency = [](const transfer& what) {
                 return what.to == 1 ? std::chrono::microseconds(1h) : 0us;
               }});
  on.send(activation(0, 1));
  for (std::int32_t i = 0; i < 10; ++i)
    on.pass_marker();
  CHECK(on.at_one.arrived().empty());
}

TEST_CASE("the receiver's copy survives that the sender's buffer is poisoned on completion") {
  loopback on({.slots = 1, .completion = [](const transfer&) { return 2ms; }, .poison = true});
  auto sent = counting(on.sender, 16, 7);
  const auto* address = std::as_const(sent).data<float>();
  on.ranks->at(0).send(activation(0, 1), {std::move(sent)});
  REQUIRE(on.at_one.waits_for(activation(0, 1)));
  const auto received = on.ranks->at(1).take(activation(0, 1), on.receiver);
  CHECK(received[0].data<float>() != address);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (on.sender.usage().live_total_bytes != 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  CHECK(received[0].data<float>()[0] == 7);
  auto again = on.sender.allocate(dtype::float32, {16});
  REQUIRE(again.data<float>() == address);
  CHECK(std::isnan(again.data<float>()[0]));
}

TEST_CASE("forgetting an epoch frees the slots that it held") {
  loopback on({.slots = 1});
  SUBCASE("held by what had arrived") {
    on.send(activation(0, 1, 0, 1));
    on.send(activation(0, 1, 1, 1)); // Waits, and is dropped.
    on.pass_marker();
    on.ranks->at(1).forget(1);
  }
  SUBCASE("held by what its sender sends later, not knowing yet that the step was aborted") {
    on.ranks->at(1).forget(1);
    for (std::int32_t i = 0; i < 3; ++i)
      on.send(activation(0, 1, i, 1));
    on.pass_marker();
  }
  SUBCASE("but not the slot of a later epoch") {
    on.send(activation(0, 1, 0, 2));
    on.pass_marker();
    on.ranks->at(1).forget(1);
    on.send(activation(0, 1, 1, 2));
    on.pass_marker();
    CHECK_FALSE(on.at_one.has(activation(0, 1, 1, 2)));
    on.take(activation(0, 1, 0, 2));
    REQUIRE(on.at_one.waits_for(activation(0, 1, 1, 2)));
    on.take(activation(0, 1, 1, 2));
  }
  for (std::int32_t i = 5; i < 8; ++i) {
    on.send(activation(0, 1, i, 2));
    REQUIRE(on.at_one.waits_for(activation(0, 1, i, 2)));
    on.send(activation(0, 1, i + 10, 2));
    on.pass_marker();
    CHECK_FALSE(on.at_one.has(activation(0, 1, i + 10, 2)));
    on.take(activation(0, 1, i, 2));
    REQUIRE(on.at_one.waits_for(activation(0, 1, i + 10, 2)));
    on.take(activation(0, 1, i + 10, 2));
  }
}
