#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "cli/bench_command.hpp"
#include "cli/config_file.hpp"
#include "cli/devices.hpp"
#include "cli/failure.hpp"
#include "cli/generate_command.hpp"
#include "cli/launch_command.hpp"
#include "cli/option_checks.hpp"
#include "cli/plan_command.hpp"
#include "cli/profile_command.hpp"
#include "cli/status_command.hpp"
#include "cli/stress_command.hpp"
#include "cli/trace_command.hpp"
#include "cli/train_command.hpp"
#include "cli/version.hpp"
#include "cli/worker_command.hpp"

namespace {

using namespace sluice::cli;

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* each : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(each->get_name());
  return names;
}

/// What was wrong with the command line, and what to do. Arguments that nobody knows come first:
/// with a misspelt option the library complains of the one that seems to be missing.
std::string explain(const CLI::ParseError& problem, const CLI::App& app) {
  const auto running = app.get_subcommands();
  const auto names = subcommand_names(app);
  const auto left = app.remaining(true);
  const auto option = std::ranges::find_if(
    left, [](const std::string& each) { return each.starts_with("-") && each.size() > 1; });
  if (running.empty() && !left.empty() && option == left.end())
    return fmt::format("there is no subcommand '{}'{}; there are {}", left.front(),
                       suggestion(left.front(), names), fmt::join(names, ", "));
  if (running.empty())
    return fmt::format("a subcommand is missing; there are {}", fmt::join(names, ", "));
  const auto help =
    fmt::format("`sluice {} --help` lists the options", running.front()->get_name());
  if (option != left.end()) {
    const auto typed = option->substr(option->find_first_not_of('-'));
    return fmt::format("unknown option {}{}; {}", *option,
                       suggestion(typed.substr(0, typed.find('=')), option_names(*running.front())),
                       help);
  }
  if (!left.empty())
    return fmt::format("'{}' belongs to no option; {}", left.front(), help);
  const std::string text = problem.what();
  if (const auto at = text.find(": At Most 1 required"); at != text.npos)
    return fmt::format("{} is given more than once, but takes one value", text.substr(0, at));
  if (const auto at = text.find(": 1 required "); at != text.npos)
    return fmt::format("{} needs a value; {}", text.substr(0, at), help);
  return text;
}

/// Results that nobody could read are no success: a full disk shows only here.
int flushed(int exit_code) {
  if (std::fflush(stdout) == 0)
    return exit_code;
  spdlog::error("cannot write the results to standard output: {}",
                std::generic_category().message(errno));
  return exit_code == exit_code::success ? exit_code::failure : exit_code;
}

} // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("sluice"));
  spdlog::set_pattern("%^%l%$: %v");

  CLI::App app{"Pipeline-parallel training in which every stage is an actor.", "sluice"};
  app.set_version_flag("--version", fmt::format("sluice {}", version()));
  app.formatter(help_format());
  app.footer(
    "Example:\n  sluice train --steps 100\n\n`sluice SUBCOMMAND --help` lists its options.");
  app.require_subcommand(1);
  int exit_code = exit_code::success;
  add_train_command(app, exit_code);
  add_worker_command(app, exit_code);
  add_status_command(app, exit_code);
  add_launch_command(app, exit_code);
  add_generate_command(app, exit_code);
  add_plan_command(app, exit_code);
  add_profile_command(app, exit_code);
  add_bench_command(app);
  add_devices_command(app);
  add_stress_command(app, exit_code);
  add_trace_command(app, exit_code);
  add_config_file(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) { // --help, --version
    return flushed(app.exit(asked));
  } catch (const CLI::ParseError& problem) {
    spdlog::error("{}", explain(problem, app));
    return exit_code::usage;
  } catch (const usage_error& problem) {
    spdlog::error("{}", problem.what());
    return exit_code::usage;
  } catch (const std::bad_alloc&) {
    spdlog::error("out of memory: give a smaller network or batch");
    return flushed(exit_code::failure);
  } catch (const std::exception& problem) {
    spdlog::error("{}", problem.what());
    return flushed(exit_code::failure);
  }
  return flushed(exit_code);
}
