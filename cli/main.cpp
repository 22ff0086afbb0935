#include <exception>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "cli/bench_command.hpp"
#include "cli/config_file.hpp"
#include "cli/devices.hpp"
#include "cli/failure.hpp"
#include "cli/generate_command.hpp"
#include "cli/plan_command.hpp"
#include "cli/profile_command.hpp"
#include "cli/stress_command.hpp"
#include "cli/train_command.hpp"
#include "cli/version.hpp"

int main(int argc, char** argv) {
  using namespace sluice::cli;
  spdlog::set_default_logger(spdlog::stderr_color_mt("sluice"));
  spdlog::set_pattern("%^%l%$: %v");

  CLI::App app{"Pipeline-parallel training in which every stage is an actor.", "sluice"};
  app.set_version_flag("--version", std::string(version()));
  app.require_subcommand(1);
  int exit_code = exit_code::success;
  add_train_command(app, exit_code);
  add_generate_command(app, exit_code);
  add_plan_command(app, exit_code);
  add_profile_command(app, exit_code);
  add_bench_command(app);
  add_devices_command(app);
  add_stress_command(app, exit_code);
  add_config_file(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? exit_code::success : exit_code::usage;
  } catch (const usage_error& problem) {
    spdlog::error("{}", problem.what());
    return exit_code::usage;
  } catch (const std::exception& problem) {
    spdlog::error("{}", problem.what());
    return exit_code::failure;
  }
  return exit_code;
}
