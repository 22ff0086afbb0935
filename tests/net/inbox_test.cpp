#include "net/inbox.hpp"

#include <thread>

#include "tests/net/fixtures.hpp"

using namespace sluice::net;
using namespace sluice::net::test;

TEST_CASE("the inbox gives what was put under the same name, in any order") {
  inbox arrived;
  buffer_pool pool(make_cpu_device());
  for (std::int32_t i = 0; i < 10; ++i)
    CHECK(arrived.put(activation(0, 1, i), {counting(pool, 4, static_cast<float>(i))}));
  for (std::int32_t i = 9; i >= 0; --i)
    CHECK(arrived.take(activation(0, 1, i))[0].data<float>()[0] == static_cast<float>(i));
}

TEST_CASE("transfers that differ in one part of their name are told apart") {
  inbox arrived;
  const transfer base{1, payload::activation, 0, 1, 1, 0};
  auto others = std::vector(6, base);
  others[0].epoch = 2;
  others[1].payload = payload::gradient;
  others[2].from = 2;
  others[3].to = 3;
  others[4].chunk = 2;
  others[5].micro_batch = 1;
  CHECK(arrived.put(base, {}));
  for (const auto& other : others) {
    CHECK_THROWS_AS(arrived.take(other), std::logic_error);
    CHECK(arrived.put(other, {}));
  }
}

TEST_CASE("what arrives twice is refused by its name") {
  inbox arrived;
  CHECK(arrived.put(activation(0, 1, 3), {}));
  CHECK_THROWS_WITH_AS(
    arrived.put(activation(0, 1, 3), {}),
    "arrived twice: the activation for chunk 1, micro-batch 3, from rank 0 to rank 1",
    std::logic_error);
  arrived.take(activation(0, 1, 3));
  CHECK_THROWS_WITH_AS(arrived.take(activation(0, 1, 3)),
                       "not here: the activation for chunk 1, micro-batch 3, from rank 0 to rank 1",
                       std::logic_error);
}

TEST_CASE("a forgotten epoch is dropped, what arrived of it and what is yet to come") {
  inbox arrived;
  buffer_pool pool(make_cpu_device());
  CHECK(arrived.put(activation(0, 1, 0, 1), {counting(pool, 4)}));
  CHECK(arrived.put(activation(0, 1, 0, 2), {counting(pool, 4)}));
  CHECK(arrived.put(activation(0, 1, 0, 3), {}));
  auto dropped = arrived.forget(2);
  CHECK(dropped.size() == 2);
  CHECK(pool.usage().live_total_bytes == 0);
  CHECK_FALSE(arrived.put(activation(0, 1, 1, 2), {}));
  CHECK_NOTHROW(arrived.take(activation(0, 1, 0, 3)));
  CHECK(arrived.forget(1).empty());
  CHECK_FALSE(arrived.put(activation(0, 1, 1, 2), {}));
}

TEST_CASE("two threads put and take at the same time") {
  inbox arrived;
  std::thread putting([&] {
    for (std::int32_t i = 0; i < 2000; ++i)
      arrived.put(activation(0, 1, i), {});
  });
  for (std::int32_t i = 0; i < 2000; ++i)
    arrived.put(activation(2, 1, i), {});
  for (std::int32_t i = 0; i < 2000; ++i)
    CHECK_NOTHROW(arrived.take(activation(2, 1, i)));
  putting.join();
  for (std::int32_t i = 0; i < 2000; ++i)
    CHECK_NOTHROW(arrived.take(activation(0, 1, i)));
}
