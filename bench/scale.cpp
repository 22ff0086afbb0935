#include "bench/scale.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "actors/plan/dispatch.hpp"
#include "bench/cases.hpp"
#include "bench/gpt_case.hpp"
#include "bench/rounds.hpp"

namespace sluice::bench {

namespace {

constexpr std::int32_t stage_counts[] = {1, 2, 4};

plan::plan plan_of(std::int32_t stages) {
  return plan::make_plan("1f1b", {.stages = stages, .micro_batches = gpt_case{}.micro_batches});
}

/// The time in a plan's stages over that in one.
double planned_share(std::int32_t stages) {
  const auto ran = plan::simulate(plan_of(stages));
  return ran.span / ran.work;
}

struct by_stages {
  std::int32_t stages;
  series measured = {};
  series planned = {};
};

std::vector<by_stages> empty_lines(const char* what, const char* peer) {
  std::vector<by_stages> all;
  for (const auto stages : stage_counts)
    all.push_back({stages,
                   {fmt::format("{}, {} stage{}", what, stages, stages > 1 ? "s" : "")},
                   {stages == 1 ? "" : peer}});
  return all;
}

void finish(const std::vector<by_stages>& all, const char* unit, std::vector<measurement>& to) {
  for (const auto& each : all)
    to.push_back(compare(each.measured, unit, each.planned));
}

/// F takes 12 ms, B and W as long, of a model in one stage.
void add_emulated(int rounds, std::vector<measurement>& to) {
  auto all = empty_lines("emulated", "1 stage, as the plan divides it");
  for (int round = 0; round < rounds; ++round)
    for (auto& each : all) {
      const auto task = 12e-3 / each.stages;
      const plan::conditions under{.stage = {task, task, task},
                                   .patience = plan::default_patience_seconds};
      each.measured.by_round.push_back(executed_span(plan_of(each.stages), under, 1));
      if (each.stages > 1)
        each.planned.by_round.push_back(all.front().measured.by_round.back()
                                        * planned_share(each.stages));
    }
  finish(all, "s", to);
}

void add_real(int rounds, std::vector<measurement>& to) {
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  const auto peer = fmt::format("1 stage, as the plan and {} cores divide it", cores);
  auto all = empty_lines("default GPT", peer.c_str());
  const auto data = make_batch({});
  std::vector<actors::pipeline> lines;
  for (const auto stages : stage_counts)
    lines.push_back(make_pipeline({}, "1f1b", stages));
  for (int round = -1; round < rounds; ++round) // one to warm up
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto taken = seconds_of([&] { lines[i].step(data); });
      if (round < 0)
        continue;
      all[i].measured.by_round.push_back(taken);
      if (i > 0)
        all[i].planned.by_round.push_back(all.front().measured.by_round.back()
                                          * std::max(planned_share(all[i].stages), 1.0 / cores));
    }
  finish(all, "s/step", to);
}

} // namespace

std::vector<measurement> measure_scale(int rounds) {
  std::vector<measurement> lines;
  add_emulated(rounds, lines);
  add_real(rounds, lines);
  return lines;
}

} // namespace sluice::bench
