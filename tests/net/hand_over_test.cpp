#include "net/hand_over.hpp"

#include "net/local.hpp"
#include "tests/net/fixtures.hpp"

using namespace sluice::net;
using namespace sluice::net::test;

TEST_CASE("a tensor that nobody else holds is handed over without a copy") {
  buffer_pool sender(make_cpu_device());
  buffer_pool receiver(make_cpu_device());
  tensor_list sent{counting(sender, 100)};
  const auto* address = std::as_const(sent[0]).data<float>();
  const auto received = hand_over(std::move(sent), receiver);
  CHECK(received[0].data<float>() == address);
  CHECK(sender.usage().live_total_bytes == 0);
  CHECK(receiver.usage().live(buffer_use::transfer) > 0);
  CHECK(receiver.usage().device_bytes == 0);
}

TEST_CASE("a tensor that its sender still holds is copied, so that both may work in place") {
  buffer_pool sender(make_cpu_device());
  buffer_pool receiver(make_cpu_device());
  auto saved = counting(sender, 100);
  tensor_list received;
  SUBCASE("the whole") {
    received = hand_over({saved}, receiver);
  }
  SUBCASE("a view of a part") {
    received = hand_over({saved.slice(10, 50)}, receiver);
    CHECK(received[0].shape() == shape{50});
    CHECK(received[0].data<float>()[0] == 10);
  }
  CHECK_FALSE(received[0].shares_buffer_with(saved));
  CHECK(receiver.usage().live(buffer_use::transfer) > 0);
  CHECK(receiver.usage().live(buffer_use::scratch) == 0);
  const auto last = std::as_const(received[0]).span<float>().back();
  saved.data<float>()[59] = -1;
  saved.data<float>()[99] = -1;
  CHECK(std::as_const(received[0]).span<float>().back() == last);
}

TEST_CASE("another library's memory is handed over without a copy and given back by the receiver") {
  buffer_pool sender(make_cpu_device());
  buffer_pool receiver(make_cpu_device());
  std::vector<float> theirs(100, 1);
  int given_back = 0;
  auto adopted = sender.adopt(dtype::float32, {100}, theirs.data(),
                              std::shared_ptr<void>(nullptr, [&](void*) { ++given_back; }));
  auto received = hand_over({adopted}, receiver);
  CHECK_FALSE(received[0].shares_buffer_with(adopted)); // the sender still holds it
  CHECK(received[0].unique());
  tensor_list sent;
  sent.push_back(std::move(adopted));
  received = hand_over(std::move(sent), receiver);
  CHECK(std::as_const(received[0]).data<float>() == theirs.data());
  CHECK_FALSE(received[0].unique());
  CHECK(sender.usage().live_total_bytes == 0);
  CHECK(receiver.usage().live(buffer_use::transfer) == 400);
  CHECK(given_back == 0);
  received.clear();
  CHECK(given_back == 1);
  CHECK(receiver.usage().live_total_bytes == 0);
}

TEST_CASE("one buffer sent as two tensors arrives as two buffers") {
  buffer_pool pool(make_cpu_device());
  auto once = counting(pool, 8);
  auto received = hand_over({once, std::move(once)}, pool);
  CHECK_FALSE(received[0].shares_buffer_with(received[1]));
  CHECK(same_bytes(received[0], received[1]));
}

TEST_CASE("an absent tensor stays absent") {
  buffer_pool pool(make_cpu_device());
  const auto received = hand_over({tensor{}, counting(pool, 3), tensor{}}, pool);
  REQUIRE(received.size() == 3);
  CHECK_FALSE(received[0]);
  CHECK(received[1]);
  CHECK_FALSE(received[2]);
}

TEST_CASE("ranks of one process pass buffers, and each pool sees what its rank holds") {
  const auto ranks = make_local_network(2);
  listener at_one;
  ranks->at(1).listen(at_one.events());
  buffer_pool sender(make_cpu_device());
  buffer_pool receiver(make_cpu_device());
  auto sent = counting(sender, 64);
  const auto* address = std::as_const(sent).data<float>();
  ranks->at(0).send(activation(0, 1), {std::move(sent)});
  CHECK(at_one.has(activation(0, 1)));
  CHECK(sender.usage().live_total_bytes > 0);
  const auto received = ranks->at(1).take(activation(0, 1), receiver);
  CHECK(received[0].data<float>() == address);
  CHECK(sender.usage().live_total_bytes == 0);
}

TEST_CASE("a local transfer of a forgotten epoch is dropped without news") {
  const auto ranks = make_local_network(2);
  listener at_one;
  ranks->at(1).listen(at_one.events());
  buffer_pool pool(make_cpu_device());
  ranks->at(0).send(activation(0, 1, 0, 1), {counting(pool, 64)});
  ranks->at(1).forget(1);
  CHECK(pool.usage().live_total_bytes == 0);
  ranks->at(0).send(activation(0, 1, 1, 1), {counting(pool, 64)});
  CHECK(at_one.arrived().size() == 1);
  CHECK(pool.usage().live_total_bytes == 0);
  ranks->at(0).send(activation(0, 1, 0, 2), {counting(pool, 64)});
  CHECK(at_one.has(activation(0, 1, 0, 2)));
}
