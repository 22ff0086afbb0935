#include "cli/emulated_run.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/emulation.hpp"
#include "cli/atomic_file.hpp"
#include "cli/failure.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"
#include "cli/trace_file.hpp"

namespace sluice::cli {

namespace {

constexpr std::uint64_t steps_unless_given = 3;

void refuse_what_needs_weights(const train_options& options) {
  const auto refuse = [](const char* option) {
    throw usage_error(fmt::format("{} does not go with an emulated device: it has no weights, no "
                                  "text and no memory of its own",
                                  option));
  };
  if (!options.checkpoint.empty())
    refuse("--checkpoint");
  if (!options.resume.empty())
    refuse("--resume");
  if (!options.data.empty())
    refuse("--data");
  if (!options.report.empty())
    refuse("--report");
  if (options.how.credits == "auto")
    refuse("--credits auto");
}

/// The step whose span is in the middle.
actors::step_report median_step(std::vector<actors::step_report> steps) {
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle, {}, &actors::step_report::span_seconds);
  return std::move(*middle);
}

nlohmann::json to_json(const actors::step_report& ran, const plan::plan& of,
                       const plan::simulation& planned) {
  auto stages = nlohmann::json::array();
  auto cost = nlohmann::json::array();
  auto planned_cost = nlohmann::json::array();
  for (const auto& stage : ran.stages) {
    cost.push_back(stage.idle_seconds);
    stages.push_back({{"busy", 1 - stage.bubble},
                      {"bubble", stage.bubble},
                      {"idle_seconds", stage.idle_seconds},
                      {"peak_activations", stage.memory.peak_activations * of.share()},
                      {"peak_bytes", stage.memory.peak_bytes}});
  }
  for (const auto& rank : planned.by_rank)
    planned_cost.push_back(rank.idle());
  nlohmann::json all{{"schedule", of.schedule},
                     {"micro_batches", of.micro_batches},
                     {"seconds_per_step", ran.seconds},
                     {"span", ran.span_seconds},
                     {"planned_span", planned.span},
                     {"bubble", ran.bubble},
                     {"planned_bubble", planned.bubble()},
                     {"cost", cost},
                     {"planned_cost", planned_cost},
                     {"stages", stages},
                     {"faults", nlohmann::json::array()}};
  for (const auto* of_weights : {"loss_first", "loss_last", "tokens_per_second", "weights_sha256"})
    all[of_weights] = nullptr;
  return all;
}

void show(const actors::step_report& ran, const plan::plan& of, const plan::simulation& planned) {
  table shown({"stage", "busy %", "idle ms", "planned", "peak activations"});
  for (const auto& stage : ran.stages)
    shown.add(
      {fmt::format("{}", stage.rank), fmt::format("{:.1f}", 100 * (1 - stage.bubble)),
       fmt::format("{:.1f}", 1e3 * stage.idle_seconds),
       fmt::format("{:.1f}", 1e3 * planned.by_rank[static_cast<std::size_t>(stage.rank)].idle()),
       fmt::format("{:g}", stage.memory.peak_activations * of.share())});
  fmt::print("{}\n{} on {} emulated stages, {} micro-batches: span {:.4f} s, planned {:.4f} s "
             "({:+.1f}%); bubble {:.1f}%, planned {:.1f}%\n",
             shown.text(), of.schedule, of.ranks, of.micro_batches, ran.span_seconds, planned.span,
             100 * (ran.span_seconds / planned.span - 1), 100 * ran.bubble, 100 * planned.bubble());
}

} // namespace

int run_emulated(const train_options& options, const CLI::App& given) {
  refuse_what_needs_weights(options);
  const auto deadline = static_cast<std::int64_t>(options.how.deadline * 1000);
  actors::pipeline_options wanted{.deadline = std::chrono::milliseconds(deadline)};
  plan::simulation planned;
  try {
    wanted.plan = plan_of(options.what, options.how);
    const auto device = actors::parse_emulation(options.how.device);
    planned = plan::simulate(wanted.plan, device.conditions);
    actors::emulate(wanted, device);
  } catch (const std::invalid_argument& problem) {
    throw usage_error(problem.what());
  }
  const auto of = wanted.plan;
  const auto steps =
    given.get_option("--steps")->count() > 0 ? options.what.steps : steps_unless_given;
  std::vector<actors::step_report> all;
  try {
    actors::pipeline line(std::move(wanted));
    for (std::uint64_t i = 0; i < steps; ++i)
      all.push_back(line.train(actors::emulated_batch(of.micro_batches)));
  } catch (const std::invalid_argument& problem) {
    throw usage_error(problem.what()); // a plan that cannot finish, with its cycle
  }
  const auto ran = median_step(std::move(all));
  auto result = to_json(ran, of, planned);
  result["steps"] = steps;
  result["device"] = options.how.device;
  if (!options.trace.empty())
    write_trace(options.trace, of, ran);
  if (options.json == "-")
    fmt::print("{}\n", result.dump(2));
  else
    show(ran, of, planned);
  if (!options.json.empty() && options.json != "-")
    write_atomically(options.json, result.dump(2) + "\n");
  return exit_code::success;
}

} // namespace sluice::cli
