#include "cli/train_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/failure.hpp"

namespace sluice::cli {

namespace {

/// Calls `with(option, member)` for each key of a recipe: the one list of them.
template <class Recipe, class Function>
void for_each_key(Recipe& of, Function with) {
  with("model", of.model);
  with("layers", of.layers);
  with("width", of.width);
  with("heads", of.heads);
  with("length", of.length);
  with("dropout", of.dropout);
  with("micro-batch-size", of.micro_batch_size);
  with("micro-batches", of.micro_batches);
  with("optimizer", of.optimizer);
  with("lr", of.lr);
  with("warm-up", of.warm_up);
  with("weight-decay", of.weight_decay);
  with("clip", of.clip);
  with("seed", of.seed);
  with("steps", of.steps);
}

/// Keys that decide which tensors a model has: those cannot change on resume.
constexpr std::array fixed_keys{"model", "layers", "width", "heads", "length", "optimizer"};

} // namespace

void add_recipe_options(CLI::App& to, recipe& what) {
  const auto positive = CLI::PositiveNumber;
  to.add_option("--model", what.model, "gpt, or mlp (guesses a byte from those before it)")
    ->check(CLI::IsMember({"gpt", "mlp"}));
  to.add_option("--layers", what.layers, "layers of the network")->check(positive);
  to.add_option("--width", what.width, "numbers that stand for one token")->check(positive);
  to.add_option("--heads", what.heads, "attention heads of a layer")->check(positive);
  to.add_option("--length", what.length, "bytes of a sequence")->check(positive);
  to.add_option("--dropout", what.dropout, "share of activations left out in training")
    ->check(CLI::Range(0.0, 0.999));
  to.add_option("--micro-batch-size", what.micro_batch_size, "sequences in a micro-batch")
    ->check(positive);
  to.add_option("--micro-batches", what.micro_batches, "micro-batches in a step")->check(positive);
  to.add_option("--optimizer", what.optimizer, "how weights are updated")
    ->check(CLI::IsMember({"adamw", "sgd"}));
  to.add_option("--lr", what.lr, "learning rate after warm-up; then a cosine to a tenth")
    ->check(CLI::NonNegativeNumber);
  to.add_option("--warm-up", what.warm_up, "steps over which the learning rate rises");
  to.add_option("--weight-decay", what.weight_decay, "of matrices; biases and norms have none")
    ->check(CLI::NonNegativeNumber);
  to.add_option("--clip", what.clip, "largest global gradient norm; 0: no clipping")
    ->check(CLI::NonNegativeNumber);
  to.add_option("--seed", what.seed, "of initial weights, samples and dropout");
  to.add_option("--steps", what.steps, "updates of the weights, in all")->check(positive);
}

void add_execution_options(CLI::App& to, execution& how) {
  const auto positive = CLI::PositiveNumber;
  to.add_option("--stages", how.stages, "stages that the layers are cut into")->check(positive);
  to.add_option("--schedule", how.schedule, "order of the tasks, as `sluice plan` knows it");
  to.add_option("--chunks", how.chunks, "pieces of the model on each stage [the schedule's]")
    ->check(positive);
  to.add_option("--credits", how.credits,
                "micro-batches a stage may hold: own (the schedule's), a number, or auto: as many "
                "as fit into --memory");
  to.add_option("--cut", how.cut, "layers of each stage, by hand: 3,2,2,3 [by measured cost]")
    ->delimiter(',');
  to.add_flag("--recompute", how.recompute, "keep a stage's inputs only, compute the rest again");
  to.add_option("--threads", how.threads, "threads of a stage's matrix products")->check(positive);
  to.add_option("--device", how.device,
                "of the stages, one or a list: see `sluice devices`; emulated:F=10ms:B=10ms:W=10ms "
                "runs the plan without computing");
  to.add_option("--memory", how.memory, "limit of each stage: 512MiB [none]");
  to.add_option("--deadline", how.deadline, "seconds without progress after which a step fails")
    ->check(positive);
}

nlohmann::json to_json(const recipe& what) {
  nlohmann::json saved;
  for_each_key(what, [&](const char* key, const auto& value) { saved[key] = value; });
  return saved;
}

void adopt(recipe& what, const nlohmann::json& saved, const CLI::App& given) {
  for_each_key(what, [&](const char* key, auto& value) {
    using type = std::remove_reference_t<decltype(value)>;
    const auto theirs = saved.at(key).get<type>();
    const bool is_given = given.get_option(fmt::format("--{}", key))->count() > 0;
    if (is_given && value != theirs && std::ranges::count(fixed_keys, std::string_view(key)) != 0)
      throw usage_error(fmt::format("the checkpoint has {} = {}, not {}: leave --{} out, or start a "
                                    "run of its own",
                                    key, theirs, value, key));
    if (!is_given)
      value = theirs;
  });
}

std::int32_t parse_credits(const std::string& text) {
  std::int32_t credits = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), credits);
  if (problem != std::errc{} || end != text.data() + text.size() || credits < 1)
    throw usage_error(
      fmt::format("--credits {}: write a whole number from 1, own or auto", text));
  return credits;
}

std::size_t parse_bytes(const std::string& text, const std::string& option) {
  std::uint64_t bytes = 0;
  auto copy = text;
  try {
    CLI::AsSizeValue convert(false);
    const auto problem = convert(copy);
    if (!problem.empty())
      throw usage_error(problem);
    bytes = std::stoull(copy);
  } catch (const std::exception&) {
    throw usage_error(
      fmt::format("--{} {}: not a size; write bytes, or a number with KiB, MiB or GiB", option, text));
  }
  return bytes;
}

} // namespace sluice::cli
