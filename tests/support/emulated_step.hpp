#pragma once

#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "actors/emulation.hpp"
#include "actors/plan/make_plan.hpp"
#include "actors/stress/judge.hpp"
#include "tests/support/stepped_system.hpp"

namespace sluice::tests {

/// A step of the real actors on emulated devices, under the test's own clock.
inline actors::step_report emulated_step(const plan::plan& plan, const actors::emulation& with,
                                         actors::step_events events = {}) {
  actors::pipeline_options options{
    .plan = plan, .deadline = std::chrono::hours(24), .events = std::move(events)};
  actors::emulate(options, with);
  stepped_system system;
  auto line = system.start(std::move(options));
  auto report = system.train(line, actors::emulated_batch(plan.micro_batches));
  system.let_run();
  return report;
}

/// Executes a plan: each lane in its order, and the whole in the span that the simulator plans.
/// longer: the share that it may take more. Of two inputs that arrive at one moment actors see one
/// first, where the simulator sees both, so a rank that has waited for either may choose otherwise.
inline void check_executed(const plan::plan& plan, const actors::emulation& with,
                           double longer = 1e-6) {
  const auto report = emulated_step(plan, with);
  CHECK(stress::order_complaint(plan, report) == "");
  const auto planned = plan::simulate(plan, with.conditions).span;
  CHECK(report.span_seconds >= planned * (1 - 1e-6));
  CHECK(report.span_seconds <= planned * (1 + longer));
}

/// 1, 2, ... last.
inline std::vector<std::int32_t> up_to(std::size_t last) {
  std::vector<std::int32_t> all(last);
  std::iota(all.begin(), all.end(), 1);
  return all;
}

/// Executes every schedule that ships with every number of stages, chunks and micro-batches.
inline void check_all_executed(const std::vector<std::int32_t>& stages,
                               const std::vector<std::int32_t>& chunks,
                               const std::vector<std::int32_t>& micro_batches,
                               double longer = 1e-6) {
  const auto with = actors::parse_emulation("emulated:F=12s:B=12s:W=12s");
  for (const auto& each : plan::all_schedules())
    for (const auto p : stages)
      for (const auto v : chunks)
        for (const auto m : micro_batches) {
          if ((!each.chunks_free && v != each.chunks) || (each.name == "dualpipe" && p % 2 != 0))
            continue;
          CAPTURE(each.name);
          CAPTURE(p);
          CAPTURE(v);
          CAPTURE(m);
          check_executed(plan::make_plan(each.name, {.stages = p, .micro_batches = m, .chunks = v}),
                         with, longer);
        }
}

} // namespace sluice::tests
