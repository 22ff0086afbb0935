// After warm-up neither the inbox nor a local hand-over asks for memory.

#include "net/inbox.hpp"
#include "net/local.hpp"
#include "tests/net/fixtures.hpp"
#include "tests/support/allocation_watch.hpp"

using namespace sluice::net;
using namespace sluice::net::test;
using sluice::test::allocation_watch;

namespace {

// Runs it three times, then counts what a fourth run allocates.
template <class Function>
std::size_t allocations_when_warm(Function round) {
  for (int i = 0; i < 3; ++i)
    round();
  const allocation_watch watch;
  round();
  return watch.counts().ours;
}

} // namespace

TEST_CASE("a warm inbox allocates nothing") {
  if (!allocation_watch::works())
    return;
  inbox arrived;
  std::uint64_t epoch = 0;
  CHECK(allocations_when_warm([&] {
          ++epoch;
          for (std::int32_t i = 0; i < 32; ++i)
            arrived.put(activation(0, 1, i, epoch), tensor_list(2));
          for (std::int32_t i = 0; i < 32; ++i)
            arrived.take(activation(0, 1, i, epoch));
        })
        == 0);
}

TEST_CASE("a warm local network allocates nothing, neither for shared tensors nor for others") {
  if (!allocation_watch::works())
    return;
  const auto ranks = make_local_network(2);
  ranks->at(1).listen({.arrived = [](const transfer&) {}, .failed = [](const std::string&) {}});
  buffer_pool sender(make_cpu_device());
  buffer_pool receiver(make_cpu_device());
  const auto shared = counting(sender, 100);
  std::uint64_t epoch = 0;
  CHECK(allocations_when_warm([&] {
          ++epoch;
          for (std::int32_t i = 0; i < 8; ++i) {
            ranks->at(0).send(activation(0, 1, i, epoch), {counting(sender, 50), shared});
            ranks->at(1).take(activation(0, 1, i, epoch), receiver);
          }
        })
        == 0);
}
