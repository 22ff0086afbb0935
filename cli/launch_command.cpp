#include "cli/launch_command.hpp"

#include <memory>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "actors/emulation.hpp"
#include "cli/failure.hpp"
#include "cli/local_workers.hpp"
#include "cli/option_checks.hpp"
#include "cli/train_command.hpp"
#include "cli/training.hpp"

namespace sluice::cli {

namespace {

struct launch_options {
  int processes = 2;
  train_options training;
};

int launch(launch_options options, const CLI::App& given) {
  if (actors::is_emulated(options.training.how.device))
    throw usage_error("an emulated device runs in one process: use `sluice train`");
  if (options.training.hosts.given() || options.training.hosts.from_environment)
    throw usage_error("`sluice launch` starts workers of its own: with --workers, --placement or "
                      "--from-environment use "
                      "`sluice train`");
  // Any worker can host all stages, so that the run can go on with the last one that is left.
  const local_workers workers(options.processes, options.training.how.stages,
                              options.training.hosts.meeting);
  options.training.hosts.workers = workers.addresses();
  return train(std::move(options.training), given);
}

} // namespace

void add_launch_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<launch_options>();
  auto* command = app.add_subcommand(
    "launch", "train over worker processes on this host, which it starts and ends");
  command->footer("Example:\n  sluice launch -n 2 --stages 4 --steps 100");
  command->add_option("-n,--processes", options->processes, "worker processes")
    ->type_name("N")
    ->check(whole_number(1, 256))
    ->capture_default_str();
  add_train_options(*command, options->training, true);
  command->callback([options, command, &exit_code] { exit_code = launch(*options, *command); });
}

} // namespace sluice::cli
