#include "cli/trace_command.hpp"

#include <filesystem>
#include <memory>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "actors/plan/draw.hpp"
#include "cli/failure.hpp"
#include "cli/option_checks.hpp"
#include "cli/trace_file.hpp"

namespace sluice::cli {

namespace {

struct trace_options {
  std::filesystem::path file;
  plan::text_style style = {.columns = 120};
};

int show(const trace_options& options) {
  const auto found = read_trace(options.file);
  const auto& ran = found.ran;
  fmt::print("{}, {} stages, {} micro-batches, as step {} ran: {:.4g} ms, bubble {:.1f}%\n\n",
             found.plan.schedule, found.plan.ranks, found.plan.micro_batches, found.step, ran.span,
             100 * ran.bubble());
  fmt::print("{}\n", plan::draw_text(found.plan, ran, options.style));
  fmt::print("{}\ntimes in ms; digits are forwards, letters backwards, dots weight gradients\n",
             plan::rank_table(found.plan, ran));
  return exit_code::success;
}

} // namespace

void add_trace_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<trace_options>();
  auto* command = app.add_subcommand("trace", "show the schedule that a training step executed");
  command->footer(
    "Example:\n  sluice train --steps 20 --trace step.json && sluice trace step.json");
  command->option_defaults()->always_capture_default();
  command->add_option("file", options->file, "what `sluice train --trace FILE` wrote")
    ->type_name("FILE")
    ->required();
  command->add_option("--columns", options->style.columns, "width of the picture")
    ->type_name("N")
    ->check(whole_number(1, 10'000));
  command->add_flag("--colours", options->style.colours, "colour the picture");
  command->callback([options, &exit_code] { exit_code = show(*options); });
}

} // namespace sluice::cli
