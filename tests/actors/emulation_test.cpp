#include <doctest/doctest.h>

#include "tests/support/emulated_step.hpp"

// Emulated devices under the test's own clock: the real actors execute each lane in its order, and
// take exactly the span that the simulator plans, for every schedule.

using namespace sluice;

TEST_CASE("every schedule executes in the planned span, P = 8 and M = 32") {
  tests::check_all_executed({8}, {1, 2}, {32});
}

TEST_CASE("every schedule executes in the planned span for few and odd numbers") {
  tests::check_all_executed({1, 2, 3, 4, 7}, {1, 2, 3, 4}, {1, 2, 3, 4, 8});
}

TEST_CASE("with jitter every task keeps its own time, so the spans still agree") {
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1", "interleaved", "zb-v"}) {
    CAPTURE(schedule);
    tests::check_executed(
      plan::make_plan(schedule, {.stages = 4, .micro_batches = 12}),
      actors::parse_emulation("emulated:F=10s:B=8s:W=9s:jitter=lognormal/0.3:slow=0.1x4:seed=3"));
  }
}

TEST_CASE("a device that is not understood says which part and how to write it") {
  for (const char* device : {"emulated:F=ten", "emulated:X=1ms", "emulated:F=1", "emulated:F",
                             "emulated:jitter=normal/0.3", "emulated:slow=0.1"}) {
    CAPTURE(device);
    CHECK_THROWS_WITH_AS(actors::parse_emulation(device),
                         doctest::Contains("write as in emulated:F=10ms"), std::invalid_argument);
  }
}
