#include "cli/train_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
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
  with("tied", of.tied);
  with("precision", of.precision);
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

template <class T>
CLI::Option* add(CLI::App& to, const char* name, T& value, const char* means, const char* type,
                 const CLI::Validator& check) {
  return to.add_option(name, value, means)->type_name(type)->check(check);
}

/// Keys that decide which tensors a model has: those cannot change on resume.
constexpr std::array fixed_keys{"model", "layers", "width", "heads", "length", "tied", "optimizer"};

} // namespace

void add_recipe_options(CLI::App& to, recipe& what) {
  add(to, "--model", what.model, "gpt, or mlp, which guesses a byte from those before it", "NAME",
      one_of({"gpt", "mlp"}));
  add(to, "--layers", what.layers, "layers of the network", "N", whole_number(1, 100'000));
  add(to, "--width", what.width, "numbers that stand for one token", "N", whole_number(1));
  add(to, "--heads", what.heads, "attention heads of a layer; they share the width", "N",
      whole_number(1));
  add(to, "--length", what.length, "bytes of one sequence", "N", whole_number(1));
  add(to, "--dropout", what.dropout, "share of activations left out in training", "SHARE",
      share_below_one());
  add(to, "--tied", what.tied, "whether a gpt's output matrix is its embedding", "true|false",
      one_of({"true", "false"}));
  add(to, "--precision", what.precision,
      "of weights and activations in the layers: float32, or bfloat16, which keeps float32 masters "
      "of the weights",
      "NAME", one_of({"float32", "bfloat16"}));
  add(to, "--micro-batch-size", what.micro_batch_size, "sequences in one micro-batch", "N",
      whole_number(1, 1'000'000));
  add(to, "--micro-batches", what.micro_batches, "micro-batches in one step", "M",
      whole_number(1, 1'000'000));
  add(to, "--optimizer", what.optimizer, "how weights are updated: adamw or sgd", "NAME",
      one_of({"adamw", "sgd"}));
  add(to, "--lr", what.lr, "learning rate after warm-up, then a cosine to a tenth", "RATE",
      number_from_zero());
  add(to, "--warm-up", what.warm_up, "steps over which the learning rate rises", "N",
      whole_number());
  add(to, "--weight-decay", what.weight_decay, "of matrices; biases and norms have none", "RATE",
      number_from_zero());
  add(to, "--clip", what.clip, "largest global gradient norm; 0: no clipping", "NORM",
      number_from_zero());
  add(to, "--seed", what.seed, "of initial weights, samples and dropout", "N", seed_number());
  add(to, "--steps", what.steps, "updates of the weights, in all", "N", whole_number(1));
}

void add_execution_options(CLI::App& to, execution& how) {
  add(to, "--stages", how.stages, "stages that the layers are cut into", "P", whole_number(1));
  add(to, "--schedule", how.schedule, "order of the tasks, as `sluice plan` knows it", "NAME", {});
  add(to, "--chunks", how.chunks, "pieces of the model on each stage [the schedule's]", "V",
      whole_number(1))
    ->default_str("");
  add(to, "--credits", how.credits,
      "micro-batches a stage may hold at once: own (the schedule's), a number, or auto: as many as "
      "fit into --memory",
      "N", {});
  add(to, "--cut", how.cut, "layers of each part, by hand: 3,2,2,3 [by measured cost]", "N,N",
      whole_number())
    ->delimiter(',');
  to.add_flag("--recompute", how.recompute,
              "keep a stage's inputs only, compute the rest again in backward");
  add(to, "--threads", how.threads, "threads of a stage's matrix products", "N",
      whole_number(1, 1024));
  add(to, "--device", how.device,
      "of the stages, one or a list: cuda:0,cuda:1; see `sluice devices`; "
      "emulated:F=10ms:B=10ms:W=10ms runs the plan without computing",
      "NAME", {});
  add(to, "--memory", how.memory, "limit of each stage, as in 512MiB [none]", "SIZE", size_text());
  add(to, "--deadline", how.deadline, "seconds without progress after which a step fails",
      "SECONDS", positive_number());
}

nlohmann::json to_json(const recipe& what) {
  nlohmann::json saved;
  for_each_key(what, [&](const char* key, const auto& value) { saved[key] = value; });
  return saved;
}

void adopt(recipe& what, const nlohmann::json& saved, const CLI::App& given) {
  for_each_key(what, [&](const char* key, auto& value) {
    using type = std::remove_reference_t<decltype(value)>;
    if (!saved.contains(key)) // A version wrote it that did not have this key yet.
      return;
    const auto theirs = saved.at(key).get<type>();
    const auto* option = given.get_option_no_throw(fmt::format("--{}", key));
    const bool is_given = option != nullptr && option->count() > 0;
    if (is_given && value != theirs && std::ranges::count(fixed_keys, std::string_view(key)) != 0)
      throw usage_error(
        fmt::format("the checkpoint has {} = {}, not {}: leave --{} out, or start a "
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
    throw usage_error(fmt::format("--credits {}: write a whole number from 1, own or auto", text));
  return credits;
}

} // namespace sluice::cli
