#include "cli/train_command.hpp"

#include <memory>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "actors/emulation.hpp"
#include "cli/emulated_run.hpp"
#include "cli/failure.hpp"
#include "cli/launched_training.hpp"
#include "cli/proposal.hpp"
#include "cli/training.hpp"

namespace sluice::cli {

namespace {

void add_file_options(CLI::App& to, train_options& options) {
  to.add_option("--checkpoint", options.checkpoint, "folder for checkpoints [none]")
    ->type_name("DIR");
  to.add_option("--checkpoint-every", options.checkpoint_every,
                "steps between checkpoints; 0: at the end only")
    ->type_name("N")
    ->check(whole_number());
  to.add_option("--keep", options.keep, "how many checkpoints stay, the newest")
    ->type_name("N")
    ->check(whole_number(1));
  to.add_option("--resume", options.resume,
                "continue the newest checkpoint of a folder, or the one that a file is [none]")
    ->type_name("DIR");
  to.add_option("--report", options.report, "loss curve as CSV, and beside it as SVG [none]")
    ->type_name("FILE");
  to.add_option("--trace", options.trace,
                "executed tasks of the last step, for Perfetto and `sluice trace` [none]")
    ->type_name("FILE");
  to.add_option("--json", options.json, "results as JSON; -: on standard output [none]")
    ->type_name("FILE");
}

} // namespace

void add_train_options(CLI::App& to, train_options& options, bool with_workers) {
  to.option_defaults()->always_capture_default();
  to.add_option("--data", options.data,
                "files of text, joined in this order [the machine's licences]")
    ->type_name("FILE");
  add_recipe_options(to, options.what);
  add_execution_options(to, options.how);
  add_proposal_options(to, options.how);
  if (with_workers)
    add_host_options(to, options.hosts);
  add_file_options(to, options);
  to.add_option("--evaluate-every", options.evaluate_every,
                "steps between looks at the held-out text; 0: at the end only")
    ->type_name("N")
    ->check(whole_number());
  to.add_option("--evaluate-sequences", options.evaluate_sequences, "held-out sequences looked at")
    ->type_name("N")
    ->check(whole_number());
  to.add_option("--sample", options.sample_bytes, "bytes of sample text at the end")
    ->type_name("N")
    ->check(whole_number());
}

void add_train_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<train_options>();
  auto* command = app.add_subcommand("train", "train a network through a pipeline of stages");
  command->footer("Example:\n  sluice train --data book.txt --stages 4 --schedule 1f1b --steps 500 "
                  "--checkpoint run");
  add_train_options(*command, *options, true);
  command->callback([options, command, &exit_code] {
    const bool several = options->hosts.given() || options->hosts.from_environment;
    if (several && actors::is_emulated(options->how.device))
      throw usage_error("--workers, --placement and --from-environment do not go with an emulated "
                        "device, which runs in this process");
    if (options->hosts.from_environment)
      exit_code = train_launched(*options, *command);
    else if (actors::is_emulated(options->how.device))
      exit_code = run_emulated(*options, *command);
    else
      exit_code = train(*options, *command);
  });
}

} // namespace sluice::cli
