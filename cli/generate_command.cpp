#include "cli/generate_command.hpp"

#include <memory>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/atomic_file.hpp"
#include "cli/failure.hpp"
#include "cli/option_checks.hpp"
#include "cli/sampler.hpp"
#include "cli/session.hpp"

namespace sluice::cli {

namespace {

struct generate_options {
  std::filesystem::path checkpoint;
  std::string prompt = "The ";
  std::size_t tokens = 200;
  double temperature = 0.7;
  std::uint64_t seed = 1;
  std::string json;
  execution how;
};

int generate(const generate_options& options, const CLI::App& given) {
  const auto from = find_checkpoint(options.checkpoint);
  recipe what;
  adopt(what, from.recipe, given);
  auto line = start_pipeline(what, options.how, plan_of(what, options.how));
  line.install(from.state);
  sampler sampler(what, options.seed, options.temperature);
  const auto text = sampler.continue_text(line, options.prompt, options.tokens);
  const nlohmann::json result{{"text", printable(text)}};
  if (options.json == "-")
    fmt::print("{}\n", result.dump(2));
  else
    fmt::print("{}\n", printable(text));
  if (!options.json.empty() && options.json != "-")
    write_atomically(options.json, result.dump(2) + "\n");
  return exit_code::success;
}

} // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<generate_options>();
  options->how.stages = 1;
  auto* command = app.add_subcommand("generate", "sample text from a checkpoint");
  command->footer("Example:\n  sluice generate --checkpoint run --prompt \"The \" --tokens 300");
  command->option_defaults()->always_capture_default();
  command->add_option("--checkpoint", options->checkpoint, "folder of checkpoints, or one of them")
    ->type_name("DIR")
    ->required();
  command->add_option("--prompt", options->prompt, "text to continue")->type_name("TEXT");
  command->add_option("--tokens", options->tokens, "bytes to add")
    ->type_name("N")
    ->check(whole_number());
  command
    ->add_option("--temperature", options->temperature,
                 "below 1: likelier bytes more often; 0: always the likeliest byte")
    ->type_name("T")
    ->check(number_from_zero());
  command->add_option("--sample-seed", options->seed, "of the sampling")
    ->type_name("N")
    ->check(seed_number());
  command->add_option("--json", options->json, "result as JSON; -: on standard output [none]")
    ->type_name("FILE");
  add_execution_options(*command, options->how);
  command->callback([options, command, &exit_code] { exit_code = generate(*options, *command); });
}

} // namespace sluice::cli
