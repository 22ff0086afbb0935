#include <doctest/doctest.h>

#include <set>

#include "actors/plan/make_plan.hpp"
#include "actors/stress/campaign.hpp"
#include "actors/stress/draw.hpp"
#include "actors/stress/trial.hpp"

// The small size of `sluice stress`, and the test of the tester: each bug that it should find is
// put in once.

using namespace sluice;
using namespace std::chrono_literals;

TEST_CASE("a trial is a function of its seed alone") {
  for (std::uint64_t index = 0; index < 50; ++index) {
    const auto seed = stress::trial_seed(3, index);
    CHECK(seed < std::uint64_t{1} << stress::seed_bits);
    const auto one = stress::make_trial(seed);
    const auto again = stress::make_trial(seed);
    CHECK(one.plan.by_rank == again.plan.by_rank);
    CHECK(to_string(one) == to_string(again));
    const plan::task task{plan::task_kind::backward, 0, 0};
    CHECK(one.task_time(0, task, true) == again.task_time(0, task, true));
    const net::transfer transfer{.epoch = 2, .from = 1, .chunk = 1};
    CHECK(one.latency(transfer) == again.latency(transfer));
    CHECK(one.completion(transfer) == again.completion(transfer));
  }
}

TEST_CASE("trials reach every synchronous schedule, P from 1 to 6, V from 1 to 3, M from 1 to 10, "
          "and plans that cannot finish") {
  std::set<std::string> schedules;
  std::set<std::int32_t> ranks;
  std::set<std::int32_t> micro_batches;
  std::set<std::size_t> chunks;
  std::set<std::int32_t> slots;
  int dead = 0;
  constexpr int trials = 2000;
  for (std::uint64_t index = 0; index < trials; ++index) {
    const auto made = stress::make_trial(stress::trial_seed(1, index));
    CHECK_MESSAGE(made.verdict.shape_errors.empty(), made.verdict.text);
    schedules.insert(made.plan.schedule);
    ranks.insert(made.plan.ranks);
    micro_batches.insert(made.plan.micro_batches);
    chunks.insert(made.plan.chunks.size() / static_cast<std::size_t>(made.plan.ranks));
    slots.insert(made.plan.receive_slots);
    dead += made.verdict.live ? 0 : 1;
  }
  for (const auto& each : plan::all_schedules())
    if (!plan::make_plan(each.name, {.stages = 2, .micro_batches = 2}).asynchronous)
      CHECK_MESSAGE(schedules.contains(std::string(each.name)), each.name);
  CHECK(ranks == std::set<std::int32_t>{1, 2, 3, 4, 5, 6});
  CHECK(micro_batches.size() == 10);
  CHECK(chunks == std::set<std::size_t>{1, 2, 3});
  CHECK(slots == std::set<std::int32_t>{0, 1, 2, 3});
  CHECK(dead > trials / 5);
  CHECK(dead < trials * 3 / 5);
}

TEST_CASE("a thousand trials finish, exactly, within memory and in lane order, or are rightly "
          "refused") {
  const auto report = stress::run({.trials = 1000, .seed = 2024});
  for (const auto& each : report.failures)
    FAIL_CHECK(each.what << "\n  " << each.trial << "\n  " << each.replay);
  CHECK(report.trials == 1000);
  MESSAGE(report.trials_per_second(), " trials a second, ", report.refused, " refused");
}

TEST_CASE("each seeded bug is found within a thousand trials, and its replay finds it again") {
  for (const auto& each : stress::all_seeded_bugs()) {
    CAPTURE(each.name);
    const auto report =
      stress::run({.trials = 1000, .seed = 1, .bug = each.bug, .failures = 1, .deadline = 2000ms});
    REQUIRE_FALSE(report.failures.empty());
    const auto& found = report.failures.front();
    MESSAGE(each.name, ", after ", found.index + 1, " trials: ", found.what);
    CHECK(found.replay.ends_with(std::string("--bug ") + std::string(each.name)));
    const auto again = stress::run(
      {.trials = 100, .replay = found.seed, .bug = each.bug, .failures = 1, .deadline = 2000ms});
    CHECK_FALSE(again.failures.empty());
  }
}
