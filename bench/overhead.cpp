#include "bench/overhead.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "bench/gpt_case.hpp"
#include "bench/rounds.hpp"

namespace sluice::bench {

namespace {

/// A pipeline of so many stages, and what was measured of it.
struct contender_line {
  std::int32_t stages;
  actors::pipeline line;
  series steps;
  series added = {}; ///< to each task
};

void add_case(const std::string& name, const gpt_case& of, std::vector<std::int32_t> stage_counts,
              int rounds, std::vector<measurement>& to) {
  const auto data = make_batch(of);
  plain_loop loop(of);
  series plain{"the same layers in a loop"};
  std::vector<contender_line> all;
  for (const auto stages : stage_counts) {
    const auto called = fmt::format("{}, {} stage{}", name, stages, stages > 1 ? "s" : "");
    all.push_back({stages, make_pipeline(of, "1f1b", stages), {called}, {called + ", a task"}});
  }
  for (int round = -2; round < rounds; ++round) { // two to warm up
    double loss = 0;
    const auto alone = seconds_of([&] { loss = loop.step(data); });
    if (round >= 0)
      plain.by_round.push_back(alone);
    for (auto& each : all) {
      actors::step_report report;
      const auto taken = seconds_of([&] { report = each.line.step(data); });
      if (!(std::abs(report.loss - loss) <= 1e-9 * std::abs(loss)))
        throw std::runtime_error(
          fmt::format("{}: the loss is {}, in a loop {}", each.steps.name, report.loss, loss));
      if (round < 0)
        continue;
      each.steps.by_round.push_back(taken);
      each.added.by_round.push_back((taken - alone) / (2.0 * of.micro_batches * each.stages));
    }
  }
  for (const auto& each : all) {
    to.push_back(compare(each.steps, "s/step", plain));
    to.push_back(compare(each.added, "s more than in a loop", {}));
  }
}

} // namespace

std::vector<measurement> measure_overhead(int rounds) {
  std::vector<measurement> lines;
  add_case("default GPT", {}, {1}, rounds, lines);
  add_case("tiny GPT", tiny_gpt, {1, 2, 4}, 10 * rounds, lines);
  return lines;
}

} // namespace sluice::bench
