#include <atomic>
#include <optional>

#include <doctest/doctest.h>

#include "tests/support/emulated_step.hpp"

// Emulated devices under the test's own clock: the real actors execute each lane in its order, and
// take exactly the span that the simulator plans, for every schedule.

using namespace sluice;

namespace {

double planned_span(const plan::plan& plan, const actors::emulation& with) {
  return plan::simulate(plan, with.conditions).span;
}

} // namespace

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

TEST_CASE("a device is given as many tasks ahead as the plan says, in the simulated span") {
  for (const auto& schedule : plan::all_schedules())
    for (const int ahead : {0, 1, 2}) {
      CAPTURE(schedule.name);
      CAPTURE(ahead);
      auto plan = plan::make_plan(schedule.name, {.stages = 4, .micro_batches = 12});
      for (auto& rank : plan.by_rank)
        rank.look_ahead = ahead;
      const auto with =
        actors::parse_emulation("emulated:F=10s:B=8s:W=9s:jitter=lognormal/0.3:seed=5");
      std::vector<int> there(4, 0);
      int most = 0;
      const auto report = tests::emulated_step(
        plan, with,
        {.before_task =
           [&](const actors::task_event& on) { most = std::max(most, ++there[on.rank]); },
         .after_task = [&](const actors::task_event& on) { --there[on.rank]; }});
      CHECK(report.span_seconds == doctest::Approx(planned_span(plan, with)).epsilon(1e-6));
      CHECK(most == 1 + ahead);
      CHECK(there == std::vector<int>(4, 0));
    }
}

TEST_CASE("a step that fails while its device has tasks in its queue leaves nothing behind") {
  auto plan = plan::make_plan("zb-h1", {.stages = 2, .micro_batches = 6});
  for (auto& rank : plan.by_rank)
    rank.look_ahead = 2;
  int to_fail = 3;
  actors::pipeline_options options{.plan = plan,
                                   .deadline = std::chrono::hours(24),
                                   .events = {.after_task = [&](const actors::task_event& on) {
                                     if (on.rank == 0 && --to_fail == 0)
                                       throw std::runtime_error("as told");
                                   }}};
  const auto with = actors::parse_emulation("emulated:F=10s:B=10s:W=10s");
  actors::emulate(options, with);
  tests::stepped_system system;
  auto line = system.start(std::move(options));
  CHECK_THROWS_WITH_AS(system.train(line, actors::emulated_batch(6)), doctest::Contains("as told"),
                       std::runtime_error);
  const auto report = system.train(line, actors::emulated_batch(6));
  system.let_run();
  CHECK(report.span_seconds == doctest::Approx(planned_span(plan, with)).epsilon(1e-6));
}

TEST_CASE("a stop of many stages waits for no timer and for no task but those under way") {
  // Sixteen stages, many of them idle with a timer that ends their patience.
  auto plan = plan::make_plan("zb-h1", {.stages = 16, .micro_batches = 16});
  tests::stepped_system system;
  const auto now = [&] { return system.scheduler().clock().now(); };
  std::optional<caf::actor_clock::time_point> stopped;
  int begun_since = 0;
  actors::pipeline_options options{
    .plan = plan,
    .deadline = std::chrono::hours(24),
    .events = {.before_task = [&](const actors::task_event&) { begun_since += stopped ? 1 : 0; },
               .after_task =
                 [&](const actors::task_event& on) {
                   if (on.rank == 7 && on.what.micro_batch == 9) {
                     stopped = now();
                     throw std::runtime_error("as told");
                   }
                 }}};
  auto with = actors::parse_emulation("emulated:F=10s:B=10s:W=10s");
  with.conditions.patience = 1;
  actors::emulate(options, with);
  auto line = system.start(std::move(options));
  CHECK_THROWS_WITH_AS(system.train(line, actors::emulated_batch(16)), doctest::Contains("as told"),
                       std::runtime_error);
  REQUIRE(stopped);
  CHECK(now() - *stopped <= std::chrono::seconds(10)); // of the test's clock: one task
  CHECK(begun_since <= 15); // by stages that the stop had not reached yet
  system.let_run();
}

TEST_CASE("more stages than threads run, stop and run again") {
  constexpr int stages = 32;
  actors::register_messages();
  caf::actor_system_config config;
  config.set("caf.scheduler.max-threads", 2);
  caf::actor_system of_two_threads(config);
  std::atomic<bool> angry{true};
  actors::pipeline_options options{
    .plan = plan::make_plan("zb-h1", {.stages = stages, .micro_batches = 8}),
    .events = {.after_task =
                 [&](const actors::task_event& on) {
                   if (angry && on.rank == stages / 2)
                     throw std::runtime_error("as told");
                 }},
    .system = &of_two_threads};
  actors::emulate(options, actors::parse_emulation("emulated:F=1ms:B=1ms:W=1ms"));
  actors::pipeline line(std::move(options));
  CHECK_THROWS_WITH_AS(line.step(actors::emulated_batch(8)), doctest::Contains("as told"),
                       actors::pipeline_error);
  angry = false;
  CHECK(line.step(actors::emulated_batch(8)).tasks.size() == stages);
}

TEST_CASE("a device that is not understood says which part and how to write it") {
  for (const char* device : {"emulated:F=ten", "emulated:X=1ms", "emulated:F=1", "emulated:F",
                             "emulated:jitter=normal/0.3", "emulated:slow=0.1"}) {
    CAPTURE(device);
    CHECK_THROWS_WITH_AS(actors::parse_emulation(device),
                         doctest::Contains("write as in emulated:F=10ms"), std::invalid_argument);
  }
}
