#include "cli/profile_command.hpp"

#include <memory>
#include <string>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/atomic_file.hpp"
#include "cli/failure.hpp"
#include "cli/layer_profile.hpp"
#include "cli/table.hpp"
#include "cli/train_options.hpp"

namespace sluice::cli {

namespace {

struct profile_options {
  recipe what;
  std::string device = "cpu";
  int threads = 1;
  std::string json;
};

std::string mebibytes(double bytes) {
  return fmt::format("{:.3f}", bytes / (1024. * 1024));
}

void show(const layer_profile& of) {
  table shown({"layer", "F ms", "B ms", "W ms", "activation MiB", "output MiB", "parameters MiB"});
  plan::layer_costs sum{.name = "all"};
  const auto add = [&](const plan::layer_costs& layer) {
    shown.add({layer.name, fmt::format("{:.3f}", 1e3 * layer.forward),
               fmt::format("{:.3f}", 1e3 * layer.backward),
               fmt::format("{:.3f}", 1e3 * layer.weight), mebibytes(layer.activation_bytes),
               mebibytes(layer.output_bytes), mebibytes(layer.parameter_bytes)});
  };
  for (const auto& layer : of.layers) {
    add(layer);
    sum.forward += layer.forward;
    sum.backward += layer.backward;
    sum.weight += layer.weight;
    sum.activation_bytes += layer.activation_bytes;
    sum.output_bytes += layer.output_bytes;
    sum.parameter_bytes += layer.parameter_bytes;
  }
  add(sum);
  fmt::print("One micro-batch of {} sequences of {} bytes; F forward, B gradient of the inputs, W "
             "of the weights:\n\n{}",
             of.measured->micro_batch_size, of.measured->length, shown.text());
}

int profile(const profile_options& options) {
  const auto measured = measure_profile(options.what, options.device, options.threads);
  auto all = to_json(measured);
  all["device"] = options.device;
  all["threads"] = options.threads;
  if (options.json == "-")
    fmt::print("{}\n", all.dump(2));
  else
    show(measured);
  if (!options.json.empty() && options.json != "-")
    write_atomically(options.json, all.dump(2) + "\n");
  return exit_code::success;
}

} // namespace

void add_profile_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<profile_options>();
  auto* command =
    app.add_subcommand("profile", "time a model's layers on a device, for `sluice plan`");
  command->footer(
    "Example:\n  sluice profile --model gpt --layers 8 --width 256 --json layers.json\n"
    "  sluice plan --profile layers.json --stages 4 --memory 2GiB");
  command->option_defaults()->always_capture_default();
  add_recipe_options(*command, options->what);
  command->add_option("--device", options->device, "on which to measure: cpu, cuda:N");
  command->add_option("--threads", options->threads, "threads of a matrix product")
    ->check(CLI::PositiveNumber);
  command->add_option("--json", options->json,
                      "the measurements as JSON; - for standard output [none]");
  command->callback([options, &exit_code] { exit_code = profile(*options); });
}

} // namespace sluice::cli
