#include "bench/jitter.hpp"

#include <algorithm>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "actors/plan/dispatch.hpp"
#include "bench/cases.hpp"

namespace sluice::bench {

namespace {

/// Calls work(0) .. work(count - 1) on all processors.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> team;
  for (std::size_t first = 0; first < threads; ++first)
    team.emplace_back([=, &work] {
      for (auto i = first; i < count; i += threads)
        work(i);
    });
}

std::vector<contender> chosen(const jitter_options& how, bool asynchronous) {
  auto all = contenders(how.stages, how.micro_batches, asynchronous);
  if (!how.schedules.empty())
    std::erase_if(all, [&](const contender& each) {
      return std::ranges::count(how.schedules, each.name) == 0;
    });
  return all;
}

const jitter_line& find(std::span<const jitter_line> lines, const std::string& noise,
                        const std::string& schedule) {
  const auto found = std::ranges::find_if(lines, [&](const jitter_line& each) {
    return each.noise == noise && each.schedule == schedule;
  });
  static const jitter_line none;
  return found == lines.end() ? none : *found;
}

} // namespace

std::vector<jitter_line> simulate_jitter(const jitter_options& how) {
  const auto plans = chosen(how, true);
  const auto noises = noise_cases();
  std::vector<jitter_line> lines(noises.size() * plans.size());
  in_parallel(lines.size(), [&](std::size_t i) {
    const auto& in = noises[i / plans.size()];
    const auto& of = plans[i % plans.size()];
    auto& line = lines[i];
    line = {in.name, of.name, 0, 0};
    double work = 0;
    for (int s = 0; s < how.seeds; ++s) {
      auto under = with_noise({.patience = how.patience, .keep_tasks = false}, in,
                              how.first_seed + static_cast<std::uint64_t>(s), how.stages);
      const auto fixed = plan::simulate(of.fixed, under);
      line.fixed += fixed.span;
      line.rule += plan::simulate(of.rule, under).span;
      work += fixed.work / how.stages;
    }
    line.fixed /= work;
    line.rule /= work;
  });
  return lines;
}

std::vector<jitter_line> execute_jitter(const jitter_options& how, double task_seconds,
                                        int repeats) {
  std::vector<jitter_line> lines;
  for (const auto& in : noise_cases())
    for (const auto& of : chosen(how, false)) {
      auto& line = lines.emplace_back(jitter_line{in.name, of.name, 0, 0});
      double work = 0;
      for (int s = 0; s < how.seeds; ++s) {
        const auto under =
          with_noise({.stage = {task_seconds, task_seconds, task_seconds},
                      .patience = plan::default_patience_seconds},
                     in, how.first_seed + static_cast<std::uint64_t>(s), how.stages);
        work += plan::simulate(of.fixed, under).work / how.stages;
        line.fixed += executed_span(of.fixed, under, repeats);
        line.rule += executed_span(of.rule, under, repeats);
      }
      line.fixed /= work;
      line.rule /= work;
    }
  return lines;
}

std::vector<measurement> jitter_bounds(std::span<const jitter_line> lines) {
  const auto& at_03 = noise_cases()[1].name;
  const auto& tenth = noise_cases()[2].name;
  std::vector<measurement> bounds;
  const auto add = [&](const std::string& name, double value, double bound) {
    bounds.push_back({name, value, "times", "at most", bound});
  };
  const auto has = [&](const std::string& schedule) {
    return std::ranges::count(lines, schedule, &jitter_line::schedule) != 0;
  };
  if (has("zb-h1") && has("1f1b"))
    add("zb-h1 over static 1f1b, " + at_03,
        find(lines, at_03, "zb-h1").rule / find(lines, at_03, "1f1b").fixed, 0.80);
  if (has("zb-h1"))
    add("zb-h1 over its static order, " + tenth, find(lines, tenth, "zb-h1").ratio(), 0.87);
  if (has("zb-h1, credits 2P"))
    add("zb-h1 with credits 2P over its static order, " + at_03,
        find(lines, at_03, "zb-h1, credits 2P").ratio(), 0.95);
  for (const auto& line : lines)
    add(line.schedule + " over its static order, " + line.noise, line.ratio(), 1.02);
  return bounds;
}

std::string jitter_csv(std::span<const jitter_line> lines) {
  std::string csv = "noise,schedule,static,rule,ratio\n";
  for (const auto& line : lines)
    csv += fmt::format("{},\"{}\",{:.4f},{:.4f},{:.4f}\n", line.noise, line.schedule, line.fixed,
                       line.rule, line.ratio());
  return csv;
}

} // namespace sluice::bench
