#include <random>

#include "tests/net/certificates.hpp"
#include "tests/net/cluster.hpp"
#include "tests/net/frames.hpp"

using namespace sluice::net;
using namespace sluice::net::test;

TEST_CASE("tensors of all types and shapes, empty and absent ones too, arrive byte for byte") {
  const sluice::test::temporary_folder folder;
  const certificates made;
  tcp_options options;
  std::vector<std::string> addresses{"127.0.0.1:0", "127.0.0.1:0"};
  SUBCASE("over TCP") {}
  SUBCASE("over TCP with checksums") {
    options.checksum = true;
  }
  SUBCASE("over TLS") {
    options.tls = made.good();
  }
  SUBCASE("over TLS with checksums and tiny socket buffers") {
    options.tls = made.good();
    options.checksum = true;
    options.socket_buffer_bytes = 4096;
  }
  SUBCASE("over Unix-domain sockets") {
    addresses = {"unix:" + (folder.path() / "a").string(),
                 "unix:" + (folder.path() / "b").string()};
  }
  auto each = std::vector(2, options);
  each[0].listen = addresses[0];
  each[1].listen = addresses[1];
  cluster on({{0}, {1}}, {activations(0, 1, 2), gradients(1, 0, 1)}, each);
  on.connect();
  buffer_pool pool(make_cpu_device());
  const auto sent = all_kinds_of_tensors(pool);
  for (std::int32_t i = 0; i < 20; ++i) {
    on.at(0).send(activation(0, 1, i), sent);
    REQUIRE(on.heard_by(1).waits_for(activation(0, 1, i)));
    auto there = on.at(1).take(activation(0, 1, i), pool);
    const transfer back{1, payload::gradient, 1, 0, 0, i};
    on.at(1).send(back, std::move(there));
    REQUIRE(on.heard_by(0).waits_for(back));
    const auto again = on.at(0).take(back, pool);
    REQUIRE(again.size() == sent.size());
    for (std::size_t t = 0; t < sent.size(); ++t)
      CHECK(same_bytes(again[t], sent[t]));
  }
  CHECK(on.log().empty());
}

TEST_CASE("what arrived is charged to the receiver's pool when taken, without a copy") {
  cluster on({{0}, {1}}, {activations(0, 1)});
  on.connect();
  buffer_pool sender(make_cpu_device());
  buffer_pool receiver(make_cpu_device());
  on.at(0).send(activation(0, 1), {counting(sender, 1000)});
  REQUIRE(on.heard_by(1).waits_for(activation(0, 1)));
  CHECK(on.usage(1).live(buffer_use::transfer) >= 4000);
  const auto got = on.at(1).take(activation(0, 1), receiver);
  CHECK(on.usage(1).live_total_bytes == 0);
  CHECK(receiver.usage().live(buffer_use::transfer) >= 4000);
  CHECK(receiver.usage().device_bytes == 0);
  CHECK(eventually([&] { return sender.usage().live_total_bytes == 0; }));
}

TEST_CASE("two ranks that are each other's previous and next tell payloads apart by name") {
  // V = 2 on two ranks: chunks 0 and 2 on rank 0, chunks 1 and 3 on rank 1.
  std::vector<tcp_edge> edges;
  for (const std::int32_t chunk : {1, 2, 3})
    edges.push_back({{payload::activation, (chunk + 1) % 2, chunk % 2, chunk}, 4, {}});
  for (const std::int32_t chunk : {0, 1, 2})
    edges.push_back({{payload::gradient, (chunk + 1) % 2, chunk % 2, chunk}, 4, {}});
  cluster on({{0}, {1}}, edges);
  on.connect();
  buffer_pool pool(make_cpu_device());
  std::vector<transfer> all;
  for (std::int32_t i = 0; i < 4; ++i)
    for (const auto& each : edges)
      all.push_back({1, each.edge.payload, each.edge.from, each.edge.to, each.edge.chunk, i});
  std::mt19937 random(3);
  std::ranges::shuffle(all, random);
  for (std::size_t i = 0; i < all.size(); ++i)
    on.at(all[i].from).send(all[i], {counting(pool, 10, static_cast<float>(i))});
  for (std::size_t i = all.size(); i-- > 0;) {
    REQUIRE(on.heard_by(all[i].to).waits_for(all[i]));
    const auto got = on.at(all[i].to).take(all[i], pool);
    CHECK(got[0].data<float>()[0] == static_cast<float>(i));
  }
}

TEST_CASE("ranks of one process pass buffers, beside those that go to another process") {
  cluster on({{0, 1}, {2}}, {activations(0, 1), activations(1, 2)});
  on.connect();
  buffer_pool pool(make_cpu_device());
  buffer_pool receiver(make_cpu_device());
  auto sent = counting(pool, 100);
  const auto* address = std::as_const(sent).data<float>();
  on.at(0).send(activation(0, 1), {std::move(sent)});
  CHECK(on.heard_by(1).has(activation(0, 1)));
  auto there = on.at(1).take(activation(0, 1), receiver);
  CHECK(std::as_const(there[0]).data<float>() == address);
  on.at(1).send(activation(1, 2), std::move(there));
  REQUIRE(on.heard_by(2).waits_for(activation(1, 2)));
  CHECK(on.at(2).take(activation(1, 2), receiver)[0].data<float>()[99] == 99);
}

TEST_CASE("what arrives before its rank listens is told when it does") {
  cluster on({{0}, {1}}, {activations(0, 1, 2)});
  auto first = on.start(0, on.run_of(0));
  auto second = on.start(1, on.run_of(1));
  REQUIRE(first.get() == "");
  REQUIRE(second.get() == "");
  buffer_pool pool(make_cpu_device());
  on.at(0).send(activation(0, 1), {counting(pool, 10)});
  REQUIRE(eventually([&] { return on.usage(1).live_total_bytes > 0; }));
  on.at(1).listen(on.heard_by(1).events());
  CHECK(on.heard_by(1).waits_for(activation(0, 1)));
}

TEST_CASE("a transfer on an edge that the run does not have is the caller's error") {
  cluster on({{0}, {1}}, {activations(0, 1)});
  on.connect();
  CHECK_THROWS_WITH_AS(
    on.at(0).send({1, payload::gradient, 0, 1, 1, 0}, {}),
    "the gradient for chunk 1, micro-batch 0, from rank 0 to rank 1: the run has "
    "no such edge",
    std::logic_error);
  CHECK_THROWS_AS(
    on.at(1).take(activation(0, 1), *std::make_unique<buffer_pool>(make_cpu_device())),
    std::logic_error);
  CHECK_THROWS_AS(on.process(0).at(1), std::out_of_range);
}

TEST_CASE("the slots bound what lies at the receiver, whatever the sender has queued") {
  std::uint32_t slots = 1;
  SUBCASE("one") {}
  SUBCASE("three") {
    slots = 3;
  }
  cluster on({{0}, {1}}, {activations(0, 1, slots), gradients(0, 1)});
  on.connect();
  buffer_pool pool(make_cpu_device());
  constexpr std::int32_t count = 50;
  constexpr std::int64_t elements = 20'000;
  for (std::int32_t i = 0; i < count; ++i)
    on.at(0).send(activation(0, 1, i), {counting(pool, elements, static_cast<float>(i))});
  for (std::int32_t i = 0; i < count; ++i) {
    const auto most = std::min<std::size_t>(static_cast<std::uint32_t>(i) + slots, count);
    REQUIRE(on.heard_by(1).waits_for_count(most));
    // All that could come has come; nothing more does, not even into a buffer.
    CHECK(on.heard_by(1).arrived().size() == most);
    CHECK(on.usage(1).live_total_bytes <= slots * (elements * sizeof(float) * 9 / 8));
    const auto got = on.at(1).take(activation(0, 1, i), pool);
    CHECK(got[0].data<float>()[0] == static_cast<float>(i));
  }
  CHECK(on.usage(1).peak_total_bytes <= slots * (elements * sizeof(float) * 9 / 8));
  CHECK(on.usage(1).device_allocations <= slots + 1);
}

TEST_CASE("forgetting an epoch drops what waits, arrived or comes late, and frees its slots") {
  cluster on({{0}, {1}}, {activations(0, 1, 2)});
  on.connect();
  buffer_pool pool(make_cpu_device());
  for (std::int32_t i = 0; i < 6; ++i)
    on.at(0).send(activation(0, 1, i, 1), {counting(pool, 1000)});
  REQUIRE(on.heard_by(1).waits_for_count(2));
  SUBCASE("at the sender first") {
    on.at(0).forget(1);
    CHECK(eventually([&] { return pool.usage().live_total_bytes == 0; }));
    on.at(1).forget(1);
    CHECK(on.heard_by(1).arrived().size() == 2);
  }
  SUBCASE("at the receiver first: what still comes is dropped there") {
    on.at(1).forget(1);
    CHECK(eventually([&] { return pool.usage().live_total_bytes == 0; }));
    on.at(0).forget(1);
  }
  CHECK(eventually([&] { return on.usage(1).live_total_bytes == 0; }));
  for (std::int32_t i = 0; i < 6; ++i)
    on.at(0).send(activation(0, 1, i, 2), {counting(pool, 1000)});
  for (std::int32_t i = 0; i < 6; ++i) {
    REQUIRE(on.heard_by(1).waits_for(activation(0, 1, i, 2)));
    on.at(1).take(activation(0, 1, i, 2), pool);
  }
}

TEST_CASE("two threads send 1,000 frames each through tiny socket buffers, and none is torn") {
  tcp_options options;
  options.socket_buffer_bytes = 4096;
  options.checksum = true;
  // Both edges of rank 0 also carry grants of the ones that come back.
  cluster on({{0, 1}, {2, 3}}, {activations(0, 2, 3), activations(1, 3, 3)}, options);
  on.connect();
  constexpr std::int32_t count = 1000;
  const auto sending = [&](std::int32_t rank) {
    return std::thread([&on, rank] {
      buffer_pool pool(make_cpu_device());
      std::mt19937 random(static_cast<unsigned>(rank));
      for (std::int32_t i = 0; i < count; ++i)
        on.at(rank).send(
          activation(rank, rank + 2, i),
          {counting(pool, 1 + static_cast<std::int64_t>(random() % 3000), static_cast<float>(i))});
    });
  };
  auto one = sending(0);
  auto two = sending(1);
  buffer_pool pool(make_cpu_device());
  std::size_t wrong = 0;
  for (std::int32_t i = 0; i < count; ++i)
    for (const std::int32_t rank : {2, 3}) {
      REQUIRE(on.heard_by(rank).waits_for(activation(rank - 2, rank, i)));
      const auto got = on.at(rank).take(activation(rank - 2, rank, i), pool);
      float expected = static_cast<float>(i);
      for (const auto value : std::as_const(got[0]).span<float>())
        wrong += value == expected++ ? 0U : 1U;
    }
  one.join();
  two.join();
  CHECK(wrong == 0);
  CHECK(on.heard_by(2).failures().empty());
}

TEST_CASE("two threads may send on one edge") {
  cluster on({{0}, {1}}, {activations(0, 1, 4)});
  on.connect();
  const auto sending = [&](std::int32_t first) {
    return std::thread([&on, first] {
      buffer_pool pool(make_cpu_device());
      for (std::int32_t i = first; i < first + 500; ++i)
        on.at(0).send(activation(0, 1, i), {counting(pool, 50, static_cast<float>(i))});
    });
  };
  auto one = sending(0);
  auto two = sending(500);
  buffer_pool pool(make_cpu_device());
  for (std::size_t i = 0; i < 1000; ++i) {
    REQUIRE(on.heard_by(1).waits_for_count(i + 1));
    const auto what = on.heard_by(1).arrived()[i];
    const auto got = on.at(1).take(what, pool);
    CHECK(got[0].data<float>()[49] == static_cast<float>(what.micro_batch + 49));
  }
  one.join();
  two.join();
}

TEST_CASE("a network's farewell comes after what it has still to send") {
  cluster on({{0}, {1}}, {activations(0, 1, 8), gradients(1, 0)});
  on.connect();
  buffer_pool pool(make_cpu_device());
  for (std::int32_t i = 0; i < 8; ++i)
    on.at(0).send(activation(0, 1, i), {counting(pool, 300'000, static_cast<float>(i))});
  on.end(0);
  REQUIRE(on.heard_by(1).waits_for_count(8));
  for (std::int32_t i = 0; i < 8; ++i)
    CHECK(on.at(1).take(activation(0, 1, i), pool)[0].data<float>()[0] == static_cast<float>(i));
  CHECK(on.heard_by(1).failures().empty());
  on.at(1).send({1, payload::gradient, 1, 0, 0, 7}, {counting(pool, 10)});
  REQUIRE(on.heard_by(1).waits_for_failure());
  CHECK(on.heard_by(1).failures().front().find(
          "the gradients for chunk 0, from rank 1 to rank 0: the peer left before the gradient for "
          "chunk 0, micro-batch 7, from rank 1 to rank 0")
        != std::string::npos);
}
