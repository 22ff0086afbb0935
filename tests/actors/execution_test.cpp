#include <doctest/doctest.h>

#include "actors/pipeline.hpp"
#include "actors/plan/simulate.hpp"
#include "kernels/nn/mlp.hpp"
#include "tests/support/stepped_system.hpp"

// What the actors execute, on a device whose tasks take fixed times: the order that 1F1B is known
// for emerges, and the simulator says the same, task by task. Time is the test's own.

using namespace sluice;
using namespace std::chrono_literals;
using plan::task_kind;

namespace {

constexpr auto slot = 1s;

std::vector<kernels::nn::module_ptr> tiny_layers() {
  return kernels::nn::make_mlp({.features = 4, .width = 8, .layers = 7, .classes = 3});
}

actors::batch tiny_batch(int micro_batches) {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  actors::batch result;
  for (int m = 0; m < micro_batches; ++m)
    result.push_back({{pool.zeros(kernels::dtype::float32, {2, 4})},
                      {pool.zeros(kernels::dtype::int32, {2})},
                      2,
                      2});
  return result;
}

actors::pipeline_options options_for(const char* schedule, int stages, int micro_batches) {
  return {.plan = plan::make_plan(schedule, {.stages = stages, .micro_batches = micro_batches}),
          .layers = tiny_layers,
          .deadline = 1h};
}

/// A step of one slot a task on the test's clock.
actors::step_report run_step(actors::pipeline_options options) {
  const auto micro_batches = options.plan.micro_batches;
  options.extra_time = [](std::int32_t, const plan::task&, bool) { return caf::timespan{slot}; };
  tests::stepped_system system;
  auto line = system.start(std::move(options));
  auto report = system.train(line, tiny_batch(micro_batches));
  system.let_run();
  return report;
}

std::int64_t slots(std::int64_t nanoseconds) {
  const std::int64_t one = std::chrono::nanoseconds(slot).count();
  REQUIRE(nanoseconds % one == 0);
  return nanoseconds / one;
}

} // namespace

TEST_CASE("1F1B with four stages and six micro-batches takes 18 slots") {
  const auto report = run_step(options_for("1f1b", 4, 6));
  CHECK(report.span_seconds == doctest::Approx(18.0));
}

TEST_CASE("under 1F1B stage s runs P - s forwards before its first backward, then one of each") {
  constexpr int stages = 4;
  constexpr int micro_batches = 8;
  const auto report = run_step(options_for("1f1b", stages, micro_batches));
  for (int s = 0; s < stages; ++s) {
    CAPTURE(s);
    std::string order;
    for (const auto& each : report.tasks[static_cast<std::size_t>(s)])
      order += plan::letter(each.what.kind);
    std::string expected(static_cast<std::size_t>(stages - s), 'F');
    for (int i = stages - s; i < micro_batches; ++i)
      expected += "BF";
    expected += std::string(static_cast<std::size_t>(stages - s), 'B');
    CHECK(order == expected);
  }
}

TEST_CASE("under GPipe every stage runs all forwards before its first backward") {
  const auto report = run_step(options_for("gpipe", 3, 5));
  for (const auto& tasks : report.tasks) {
    std::string order;
    for (const auto& each : tasks)
      order += plan::letter(each.what.kind);
    CHECK(order == "FFFFFBBBBB");
  }
}

TEST_CASE("the actors run what the simulator says, task by task and to the slot") {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const int stages : {1, 2, 3, 4, 7})
      for (const int micro_batches : {1, 2, 3, 4, 7, 8}) {
        CAPTURE(schedule);
        CAPTURE(stages);
        CAPTURE(micro_batches);
        auto options = options_for(schedule, stages, micro_batches);
        // A whole backward is one slot here, as a forward is.
        const auto simulated =
          plan::simulate(options.plan, {.stage = {.forward = 1, .backward = 1, .weight = 0}});
        const auto report = run_step(std::move(options));
        std::int64_t first = std::numeric_limits<std::int64_t>::max();
        for (const auto& tasks : report.tasks)
          first = std::min(first, tasks.front().start_ns);
        std::vector<std::vector<plan::timed_task>> expected(static_cast<std::size_t>(stages));
        for (const auto& each : simulated.tasks)
          expected[static_cast<std::size_t>(each.rank)].push_back(each);
        for (std::size_t rank = 0; rank < expected.size(); ++rank) {
          REQUIRE(report.tasks[rank].size() == expected[rank].size());
          for (std::size_t i = 0; i < expected[rank].size(); ++i) {
            CHECK(report.tasks[rank][i].what == expected[rank][i].what);
            CHECK(static_cast<double>(slots(report.tasks[rank][i].start_ns - first))
                  == expected[rank][i].start);
          }
        }
      }
}

TEST_CASE("stage s holds min(M, P - s) activations under 1F1B, however many micro-batches") {
  constexpr int stages = 4;
  // One activation's bytes, from a step that can only hold one.
  const auto one = run_step(options_for("1f1b", stages, 1));
  for (const int micro_batches : {1, 2, 3, 8, 64}) {
    CAPTURE(micro_batches);
    const auto report = run_step(options_for("1f1b", stages, micro_batches));
    for (int s = 0; s < stages; ++s) {
      CAPTURE(s);
      const auto& memory = report.stages[static_cast<std::size_t>(s)].memory;
      const auto& single = one.stages[static_cast<std::size_t>(s)].memory;
      const auto expected = std::min(micro_batches, stages - s);
      CHECK(memory.peak_activations == expected);
      CHECK(memory.peak_activation_bytes
            == single.peak_activation_bytes * static_cast<std::uint64_t>(expected));
    }
  }
}

TEST_CASE("under GPipe every stage holds all micro-batches at once") {
  const auto report = run_step(options_for("gpipe", 3, 9));
  for (const auto& stage : report.stages)
    CHECK(stage.memory.peak_activations == 9);
}
