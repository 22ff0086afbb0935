#include "cli/stress_command.hpp"

#include <memory>
#include <string>
#include <vector>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "actors/stress/campaign.hpp"
#include "cli/atomic_file.hpp"
#include "cli/failure.hpp"

namespace sluice::cli {

namespace {

struct stress_options {
  stress::campaign wanted;
  double seconds = 0;
  std::uint64_t replay = 0;
  std::string bug;
  std::string json;
};

void print(const stress::failure& failed) {
  spdlog::error("trial {}, seed {}: {}\n  {}\n  again, with the same plan, times and delays (how "
                "threads interleave is not repeated): {}",
                failed.index, failed.seed, failed.what, failed.trial, failed.replay);
}

nlohmann::json to_json(const stress::campaign_report& report) {
  nlohmann::json all{{"trials", report.trials},
                     {"refused", report.refused},
                     {"seconds", report.seconds},
                     {"trials_per_second", report.trials_per_second()},
                     {"failures", nlohmann::json::array()}};
  for (const auto& each : report.failures)
    all["failures"].push_back(
      {{"seed", each.seed}, {"what", each.what}, {"trial", each.trial}, {"replay", each.replay}});
  return all;
}

int run(const stress::campaign& wanted, const std::string& json) {
  const auto report = stress::run(wanted);
  const auto failed = report.failures.size();
  if (json == "-") {
    fmt::print("{}\n", to_json(report).dump(2));
  } else {
    fmt::print("{} trials in {:.1f} s ({:.0f} a second): {} finished, exact, within memory and in "
               "order; {} had plans that cannot finish, rightly refused; {} failed\n",
               report.trials, report.seconds, report.trials_per_second(),
               report.trials - report.refused - failed, report.refused, failed);
    if (!json.empty())
      write_atomically(json, to_json(report).dump(2) + "\n");
  }
  return failed == 0 ? exit_code::success : exit_code::failure;
}

std::vector<std::string> bug_names() {
  std::vector<std::string> all;
  for (const auto& each : stress::all_seeded_bugs())
    all.emplace_back(each.name);
  return all;
}

std::string bug_list() {
  std::string text = "self-test: put this bug in, and end with 1 once it is found:";
  for (const auto& each : stress::all_seeded_bugs())
    text += fmt::format(" {} ({});", each.name, each.what);
  text.pop_back();
  return text;
}

} // namespace

void add_stress_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<stress_options>();
  auto* command = app.add_subcommand(
    "stress", "random plans, timings and channels through the real actors, checked against a "
              "serial run");
  command->footer(
    "Examples:\n  sluice stress --trials 1000\n  sluice stress --seconds 60 --seed 7\n"
    "  sluice stress --replay 123456789");
  command->option_defaults()->always_capture_default();
  auto& o = *options;
  auto* trials = command->add_option("--trials", o.wanted.trials,
                                     "how many; no limit where --seconds is given alone");
  auto* seconds =
    command->add_option("--seconds", o.seconds, "begin no trial after this time; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  auto* seed = command->add_option("--seed", o.wanted.seed, "of the whole run");
  auto* replay = command
                   ->add_option("--replay", o.replay,
                                "run the one trial of this number (that a failure printed), "
                                "once or --trials times")
                   ->excludes(seed);
  command->add_option("--json", o.json, "results as JSON; - for standard output [none]");
  command->add_option("--at-once", o.wanted.at_once, "trials that run at the same time")
    ->check(CLI::PositiveNumber);
  command->add_option("--failures", o.wanted.failures, "stop after so many")
    ->check(CLI::PositiveNumber);
  auto* deadline = command->add_option_function<std::int64_t>(
    "--deadline",
    [options](std::int64_t given) { options->wanted.deadline = std::chrono::milliseconds(given); },
    "a step without progress for so many milliseconds has stalled [5000]");
  deadline->check(CLI::PositiveNumber);
  command->add_option("--bug", o.bug, bug_list())->check(CLI::IsMember(bug_names()));
  command->callback([options, trials, seconds, replay, &exit_code] {
    auto& wanted = options->wanted;
    if (options->seconds > 0)
      wanted.time = std::chrono::duration<double>(options->seconds);
    if (seconds->count() > 0 && trials->count() == 0)
      wanted.trials = ~std::uint64_t{0};
    if (replay->count() > 0) {
      wanted.replay = options->replay;
      if (trials->count() == 0)
        wanted.trials = 1;
    }
    for (const auto& each : stress::all_seeded_bugs())
      if (each.name == options->bug)
        wanted.bug = each.bug;
    wanted.on_failure = print;
    exit_code = run(wanted, options->json);
  });
}

} // namespace sluice::cli
