#include <atomic>

#include "tests/net/cluster.hpp"
#include "tests/net/relay.hpp"

using namespace sluice::net;
using namespace sluice::net::test;

TEST_CASE("a slow edge delays no other one between the same two processes") {
  // Rank 7 is the last of eight. One of its edges into rank 0 passes 100 KB/s at most, until the
  // others are done.
  std::atomic<bool> slow = true;
  const std::vector<tcp_edge> edges{
    {{payload::activation, 7, 0, 8}, 2, {}}, // slow
    {{payload::gradient, 7, 0, 0}, 2, {}},
    {{payload::activation, 0, 7, 7}, 2, {}},
    {{payload::gradient, 0, 7, 15}, 2, {}},
  };
  cluster on({{0}, {7}}, edges);
  const relay between(on.process(0).address(), [&](const edge& which) -> std::size_t {
    return slow && which == edges[0].edge ? 100 : 0;
  });
  auto run = on.run_of(1);
  run.peers[0] = between.address();
  auto first = on.start(0, on.run_of(0));
  auto second = on.start(1, run);
  REQUIRE(first.get() == "");
  REQUIRE(second.get() == "");
  for (const std::int32_t rank : {0, 7})
    on.at(rank).listen(on.heard_by(rank).events());

  buffer_pool pool(make_cpu_device());
  constexpr std::int64_t elements = 250'000; // 1 MB: ten seconds on the slow edge
  const transfer late{1, payload::activation, 7, 0, 8, 0};
  on.at(7).send(late, {counting(pool, elements)});
  auto more = late;
  more.micro_batch = 1;
  on.at(7).send(more, {counting(pool, elements)});
  for (std::int32_t i = 0; i < 10; ++i)
    for (std::size_t e = 1; e < edges.size(); ++e) {
      const auto& each = edges[e].edge;
      const transfer what{1, each.payload, each.from, each.to, each.chunk, i};
      on.at(what.from).send(what, {counting(pool, elements)});
      REQUIRE(on.heard_by(what.to).waits_for(what));
      on.at(what.to).take(what, pool);
    }
  CHECK_FALSE(on.heard_by(0).has(late)); // Thirty transfers overtook it.
  slow = false;
  REQUIRE(on.heard_by(0).waits_for(late));
  REQUIRE(on.heard_by(0).waits_for(more));
  CHECK(on.heard_by(0).failures().empty());
}
