#include <doctest/doctest.h>

#include "actors/pipeline.hpp"
#include "actors/plan/make_plan.hpp"
#include "actors/stress/campaign.hpp"
#include "actors/stress/small_model.hpp"
#include "tests/support/emulated_step.hpp"

using namespace sluice;
using namespace std::chrono_literals;

TEST_CASE(
  "20,000 trials finish, exactly, within memory and in lane order, or are rightly refused") {
  const auto report = stress::run({.trials = 20'000, .seed = 1});
  for (const auto& each : report.failures)
    FAIL_CHECK(each.what << "\n  " << each.trial << "\n  " << each.replay);
  CHECK(report.trials == 20'000);
  MESSAGE(report.trials_per_second(), " trials a second, ", report.refused, " refused");
}

TEST_CASE("every schedule executes within 3% of the planned span: P 1 to 16, V 1 to 4, M 1 to 40") {
  tests::check_all_executed(tests::up_to(16), tests::up_to(4), tests::up_to(40), 0.03);
}

TEST_CASE("100,000 tiny steps of two stages do not stall [oneflow#4617]") {
  constexpr std::uint64_t steps = 100'000;
  const stress::small_model model{.layers = 2};
  for (const bool detached : {true, false}) {
    CAPTURE(detached);
    actors::pipeline line({.plan = plan::make_plan("1f1b", {.stages = 2, .micro_batches = 2}),
                           .layers = [&] { return model.make(); },
                           .deadline = 10s,
                           .detached = detached});
    const auto data = model.batch(1, std::vector<std::int64_t>{1, 1});
    for (std::uint64_t step = 0; step < steps / 2; ++step)
      REQUIRE_FALSE(line.train(data).skipped);
  }
}
