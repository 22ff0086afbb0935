#include "cli/bench_command.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/plan/dispatch.hpp"
#include "actors/plan/simulate.hpp"
#include "bench/control_messages.hpp"
#include "bench/jitter.hpp"
#include "bench/measurement_json.hpp"
#include "bench/memory.hpp"
#include "bench/overhead.hpp"
#include "bench/scale.hpp"
#include "bench/span.hpp"
#include "bench/step.hpp"
#include "bench/transfer.hpp"
#include "cli/atomic_file.hpp"
#include "cli/failure.hpp"
#include "cli/table.hpp"

namespace sluice::cli {

namespace {

/// Where the results of a benchmark go.
struct outputs {
  std::string json;
  std::string csv = {};
  std::string svg = {};

  bool quiet() const { return json == "-"; }

  void write(const nlohmann::json& cases) const {
    const auto text = nlohmann::json{{"cases", cases}}.dump(2) + "\n";
    if (quiet())
      fmt::print("{}", text);
    else if (!json.empty())
      write_atomically(json, text);
  }
};

void bench_span(const bench::span_options& how, const outputs& to) {
  table shown({"schedule", "planned s", "executed s", "ratio"});
  auto cases = nlohmann::json::array();
  for (const auto& line : bench::measure_spans(how)) {
    shown.add({line.name, fmt::format("{:.4f}", line.peer_value), fmt::format("{:.4f}", line.value),
               fmt::format("{:.3f}", line.ratio())});
    cases.push_back(to_json(line));
  }
  if (!to.quiet())
    fmt::print("{}", shown.text());
  to.write(cases);
}

void show_bounds(std::span<const bench::jitter_line> lines) {
  table shown({"bound", "at most", "found"});
  for (const auto& bound : bench::jitter_bounds(lines))
    if (bound.ratio() > 1 || bound.peer_value < 1)
      shown.add({bound.name + (bound.ratio() > 1 ? " (CROSSED)" : ""),
                 fmt::format("{:.2f}", bound.peer_value), fmt::format("{:.3f}", bound.value)});
  fmt::print("\n{}", shown.text());
}

void show_jitter(std::span<const bench::jitter_line> lines) {
  table shown({"noise, schedule", "static", "rule", "ratio"});
  for (const auto& line : lines)
    shown.add({line.noise + ", " + line.schedule, fmt::format("{:.3f}", line.fixed),
               fmt::format("{:.3f}", line.rule), fmt::format("{:.3f}", line.ratio())});
  fmt::print("{}", shown.text());
  show_bounds(lines);
}

/// What was executed beside what the simulator says of actors as patient as these.
void show_executed(std::span<const bench::jitter_line> lines, bench::jitter_options how,
                   double task_ms) {
  how.patience = plan::default_patience_seconds / task_ms * 1e3;
  const auto planned = bench::simulate_jitter(how);
  table shown({"noise, schedule", "static", "rule", "ratio", "simulated ratio"});
  for (const auto& line : lines) {
    const auto same = std::ranges::find_if(planned, [&](const bench::jitter_line& each) {
      return each.noise == line.noise && each.schedule == line.schedule;
    });
    shown.add({line.noise + ", " + line.schedule, fmt::format("{:.3f}", line.fixed),
               fmt::format("{:.3f}", line.rule), fmt::format("{:.3f}", line.ratio()),
               fmt::format("{:.3f}", same->ratio())});
  }
  fmt::print("{}", shown.text());
  show_bounds(lines);
}

struct jitter_request {
  bench::jitter_options how;
  double task_ms = 0; ///< more than 0: on emulated devices
  int repeats = 3;
};

std::string title(const jitter_request& wanted) {
  const auto& how = wanted.how;
  return fmt::format("P = {}, M = {}, means over seeds {} to {}, {}", how.stages, how.micro_batches,
                     how.first_seed, how.first_seed + how.seeds - 1,
                     wanted.task_ms > 0 ? "executed" : "simulated");
}

void bench_jitter(const jitter_request& wanted, const outputs& to) {
  const bool executed = wanted.task_ms > 0;
  const auto lines = executed
                     ? bench::execute_jitter(wanted.how, wanted.task_ms * 1e-3, wanted.repeats)
                     : bench::simulate_jitter(wanted.how);
  if (lines.empty())
    throw usage_error("--schedules: none of them is measured; write them as the table does");
  if (!to.quiet() && executed)
    show_executed(lines, wanted.how, wanted.task_ms);
  else if (!to.quiet())
    show_jitter(lines);
  if (!to.csv.empty())
    write_atomically(to.csv, bench::jitter_csv(lines));
  if (!to.svg.empty())
    write_atomically(to.svg, bench::jitter_svg(lines, title(wanted)));
  auto cases = nlohmann::json::array();
  for (const auto& line : lines)
    cases.push_back(to_json(bench::measurement{line.noise + ", " + line.schedule, line.rule,
                                               "mean work", "static order", line.fixed}));
  for (const auto& bound : bench::jitter_bounds(lines))
    cases.push_back(to_json(bound));
  to.write(cases);
}

/// no_peer: what stands where there is nothing to compare with.
void show(std::span<const bench::measurement> lines, const outputs& to,
          const std::string& no_peer = "") {
  table shown({"case", "value", "unit", "peer", "peer's", "ratio"});
  auto cases = nlohmann::json::array();
  for (const auto& line : lines) {
    const bool compared = !line.peer.empty();
    shown.add({line.name, fmt::format("{:.3g}", line.value), line.unit,
               compared ? line.peer : no_peer,
               compared ? fmt::format("{:.3g}", line.peer_value) : "",
               compared ? fmt::format("{:.2f}", line.ratio()) : ""});
    cases.push_back(to_json(line));
  }
  if (!to.quiet())
    fmt::print("{}", shown.text());
  to.write(cases);
}

void bench_transfer(std::size_t rounds, const outputs& to) {
  const bench::workshop in;
  auto lines = bench::measure_transfers(in, rounds);
  std::ranges::move(bench::measure_control_messages(in, rounds), std::back_inserter(lines));
  show(lines, to, "no iperf here");
}

void add_span(CLI::App& bench, std::shared_ptr<outputs> to) {
  auto how = std::make_shared<bench::span_options>();
  auto* command =
    bench.add_subcommand("span", "planned and executed span of every schedule on emulated devices");
  command->option_defaults()->always_capture_default();
  command->add_option("--stages", how->stages, "P")->check(CLI::PositiveNumber);
  command->add_option("--micro-batches", how->micro_batches, "M")->check(CLI::PositiveNumber);
  command->add_option("--task", how->task_seconds, "seconds that each task takes")
    ->check(CLI::PositiveNumber);
  command->add_option("--steps", how->steps, "of which the fastest counts")
    ->check(CLI::PositiveNumber);
  command->add_option("--json", to->json, "results as JSON; - for standard output [none]");
  command->callback([how, to] { bench_span(*how, *to); });
}

void add_jitter(CLI::App& bench, std::shared_ptr<outputs> to) {
  auto wanted = std::make_shared<jitter_request>();
  auto& how = wanted->how;
  auto* command =
    bench.add_subcommand("jitter", "the rule against each plan's static order, under noise");
  command->footer("Examples:\n  sluice bench jitter --csv jitter.csv --svg jitter.svg\n"
                  "  sluice bench jitter --stages 8 --micro-batches 16 --seeds 3 --execute 10 "
                  "--schedules \"1f1b;zb-h1;zb-h1, credits 2P\"");
  command->option_defaults()->always_capture_default();
  command->add_option("--stages", how.stages, "P")->check(CLI::PositiveNumber);
  command->add_option("--micro-batches", how.micro_batches, "M")->check(CLI::PositiveNumber);
  command->add_option("--first-seed", how.first_seed, "of the noise");
  command->add_option("--seeds", how.seeds, "how many, one after another")
    ->check(CLI::PositiveNumber);
  command->add_option("--patience", how.patience, "of the simulated ranks, in tasks")
    ->check(CLI::NonNegativeNumber);
  command
    ->add_option("--execute", wanted->task_ms,
                 "run the real actors on emulated devices with tasks of so many ms; 0: simulate")
    ->check(CLI::NonNegativeNumber);
  command->add_option("--repeats", wanted->repeats, "with --execute: of which the fastest counts")
    ->check(CLI::PositiveNumber);
  command->add_option("--schedules", how.schedules, "only these, by a semicolon each [all]")
    ->delimiter(';');
  command->add_option("--csv", to->csv, "write the lines as a table");
  command->add_option("--svg", to->svg, "write the figure");
  command->add_option("--json", to->json, "results as JSON; - for standard output [none]");
  command->callback([wanted, to] { bench_jitter(*wanted, *to); });
}

/// A benchmark with nothing to choose but how often all is measured in turn.
CLI::App* add_rounds(CLI::App& bench, const char* name, const char* brief,
                     std::shared_ptr<outputs> to, std::shared_ptr<int> rounds) {
  auto* command = bench.add_subcommand(name, brief);
  command->footer(fmt::format("Example:\n  sluice bench {} --json -", name));
  command->option_defaults()->always_capture_default();
  command
    ->add_option("--rounds", *rounds, "medians are of so many; all is measured in turn in each")
    ->check(CLI::PositiveNumber);
  command->add_option("--json", to->json, "results as JSON; - for standard output [none]");
  return command;
}

void add_transfer(CLI::App& bench, std::shared_ptr<outputs> to) {
  auto rounds = std::make_shared<int>(7);
  add_rounds(bench, "transfer",
             "a tensor edge and control messages between processes, over the loopback", to, rounds)
    ->callback([rounds, to] { bench_transfer(static_cast<std::size_t>(*rounds), *to); });
}

void add_steps(CLI::App& bench, std::shared_ptr<outputs> to) {
  auto rounds = std::make_shared<int>(9);
  add_rounds(bench, "overhead", "what a pipeline adds to the same layers in a serial loop", to,
             rounds)
    ->callback([rounds, to] { show(bench::measure_overhead(*rounds), *to); });
  add_rounds(bench, "scale", "1, 2 and 4 stages, emulated and real, against what the plan allows",
             to, rounds)
    ->callback([rounds, to] { show(bench::measure_scale(*rounds), *to); });
  auto python = std::make_shared<std::string>("python3");
  auto* step = add_rounds(
    bench, "step", "a training step of the default network, beside PyTorch where there is one", to,
    rounds);
  step->add_option("--python", *python, "that may have a torch, the peer");
  step->callback([rounds, python, to] {
    show(bench::measure_step(*rounds, *python), *to, "no PyTorch for " + *python);
  });
}

void add_memory(CLI::App& bench, std::shared_ptr<outputs> to) {
  auto* command = bench.add_subcommand(
    "memory", "peak activation bytes of each rank, against what each plan predicts");
  command->footer("Example:\n  sluice bench memory --json -");
  command->add_option("--json", to->json, "results as JSON; - for standard output [none]");
  command->callback([to] { show(bench::measure_memory(), *to); });
}

} // namespace

void add_bench_command(CLI::App& app) {
  auto* bench = app.add_subcommand("bench", "measure Sluice itself");
  bench->require_subcommand(1);
  auto to = std::make_shared<outputs>();
  add_span(*bench, to);
  add_jitter(*bench, to);
  add_transfer(*bench, to);
  add_steps(*bench, to);
  add_memory(*bench, to);
}

} // namespace sluice::cli
