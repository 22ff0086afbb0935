#include "bench/cases.hpp"

#include <algorithm>
#include <limits>

#include "actors/emulation.hpp"
#include "actors/plan/make_plan.hpp"

namespace sluice::bench {

std::vector<contender> contenders(std::int32_t stages, std::int32_t micro_batches,
                                  bool asynchronous) {
  std::vector<contender> all;
  const auto add = [&](std::string name, const plan::plan& rule) {
    all.push_back({std::move(name), rule, plan::freeze(rule, plan::simulate(rule))});
  };
  for (const auto& each : plan::all_schedules()) {
    plan::plan_request wanted{.stages = stages, .micro_batches = micro_batches};
    if (each.name == "dualpipe" && stages % 2 != 0)
      continue;
    const auto made = plan::make_plan(each.name, wanted);
    if (made.asynchronous && !asynchronous)
      continue;
    add(std::string(each.name), made);
    if (each.name == "zb-h1") {
      wanted.credits = 2 * stages;
      add("zb-h1, credits 2P", plan::make_plan(each.name, wanted));
    }
  }
  return all;
}

std::span<const noise_case> noise_cases() {
  static const noise_case all[] = {{"lognormal 0.1", {.sigma = 0.1}},
                                   {"lognormal 0.3", {.sigma = 0.3}},
                                   {"a tenth of tasks 4x", {.slow_share = 0.1, .slow_factor = 4}},
                                   {"one rank 1.3x slower", {}, 1.3}};
  return all;
}

plan::conditions with_noise(plan::conditions under, const noise_case& in, std::uint64_t seed,
                            std::int32_t ranks) {
  under.noise = in.noise;
  under.noise.seed = seed;
  const auto count = static_cast<std::size_t>(ranks);
  under.slowness.assign(count, 1);
  under.slowness[seed % count] = in.slowest;
  return under;
}

double executed_span(const plan::plan& of, const plan::conditions& under, int steps) {
  actors::pipeline_options options{.plan = of};
  actors::emulate(options, {.conditions = under});
  actors::pipeline line(std::move(options));
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < steps; ++i)
    least = std::min(least, line.train(actors::emulated_batch(of.micro_batches)).span_seconds);
  return least;
}

} // namespace sluice::bench
