#include "actors/recipe.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "actors/plan/check.hpp"
#include "kernels/nn/gpt.hpp"
#include "kernels/nn/mlp.hpp"

namespace sluice::actors {

namespace {

constexpr std::int64_t most_layers = 100'000;
constexpr std::int64_t most_width = 1 << 20;
constexpr std::int64_t most_ranks = 4096;
constexpr std::int64_t most_chunks = 1 << 16;
constexpr std::int64_t most_micro_batches = 1'000'000;
constexpr std::int64_t most_lane_entries = 1 << 26;
constexpr std::int64_t most_threads = 1024;
constexpr std::int64_t most_values = 1024;

void require_within(const char* what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    throw std::invalid_argument(
      fmt::format("{} is {}, and must be from {} to {}", what, value, least, most));
}

void check_sizes(const plan::plan& of) {
  require_within("the number of ranks", of.ranks, 1, most_ranks);
  require_within("the number of micro-batches", of.micro_batches, 1, most_micro_batches);
  require_within("the number of parts", of.parts, 1, most_chunks);
  const auto count = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  require_within("the number of chunks", count(of.chunks), 1, most_chunks);
  require_within("the number of routes", count(of.routes), 1, most_chunks);
  std::int64_t entries = 0;
  for (const auto& rank : of.by_rank)
    entries += rank.tasks();
  require_within("the number of tasks", entries, 1, most_lane_entries);
  if (!of.skips.empty())
    throw std::invalid_argument("the plan has skip edges, which the stages do not run yet");
}

void check_plan(const plan::plan& of) {
  check_sizes(of);
  if (const auto wrong = plan::shape_errors(of); !wrong.empty())
    throw std::invalid_argument("the plan is none: " + wrong.front());
  if (const auto verdict = plan::check(of); !verdict.live)
    throw std::invalid_argument("the plan cannot run: " + verdict.text);
}

kernels::dtype type_of(const std::string& precision) {
  if (precision == "float32")
    return kernels::dtype::float32;
  if (precision == "bfloat16")
    return kernels::dtype::bfloat16;
  throw std::invalid_argument(
    fmt::format("there is no precision '{}': float32 or bfloat16", precision));
}

void check_model(const model_recipe& of) {
  type_of(of.precision);
  require_within("the number of layers", of.layers, 1, most_layers);
  require_within("the width", of.width, 1, most_width);
  require_within("the number of heads", of.heads, 1, most_width);
  require_within("the length", of.length, 1, most_width);
  require_within("the vocabulary", of.vocabulary, 1, most_width);
}

} // namespace

std::vector<kernels::nn::module_ptr> make_layers(const model_recipe& of, const model_makers& more) {
  if (const auto own = more.find(of.kind); own != more.end())
    return own->second(of);
  const auto type = type_of(of.precision);
  if (of.kind == "mlp")
    return kernels::nn::make_mlp({.features = of.length,
                                  .width = of.width,
                                  .layers = of.layers,
                                  .classes = of.vocabulary,
                                  .dropout = of.dropout},
                                 type);
  if (of.kind == "gpt")
    return kernels::nn::make_gpt({.vocabulary = of.vocabulary,
                                  .layers = of.layers,
                                  .width = of.width,
                                  .heads = of.heads,
                                  .length = of.length,
                                  .dropout = of.dropout,
                                  .tied = of.tied},
                                 type);
  std::string known = "gpt, mlp";
  for (const auto& [kind, make] : more)
    known += ", " + kind;
  throw std::invalid_argument(fmt::format("there is no model '{}': {}", of.kind, known));
}

std::shared_ptr<const kernels::nn::optimizer> make_optimizer(const optimizer_recipe& of) {
  if (of.kind == "sgd")
    return kernels::nn::make_sgd({.momentum = of.momentum, .weight_decay = of.weight_decay});
  if (of.kind == "adamw")
    return kernels::nn::make_adamw({.weight_decay = of.weight_decay});
  throw std::invalid_argument(fmt::format("there is no optimizer '{}': adamw or sgd", of.kind));
}

void check_recipe(const stage_recipe& of) {
  check_model(of.model);
  check_plan(of.plan);
  require_within("the number of threads", of.threads, 1, most_threads);
  if (of.cut.empty())
    throw std::invalid_argument("the recipe does not say how the layers are cut");
  for (const auto size : of.cut)
    require_within("a part's number of layers", static_cast<std::int64_t>(size), 1, most_layers);
  for (const auto rank : of.recompute_ranks)
    require_within("a rank that recomputes", rank, 0, of.plan.ranks - 1);
  for (const auto* names : {&of.values.inputs, &of.values.targets})
    require_within("the number of inputs or targets", static_cast<std::int64_t>(names->size()), 0,
                   most_values);
  make_optimizer(of.optimizer);
}

model_layout lay_out(const stage_recipe& of, const model_makers& more) {
  return lay_out({of.plan,
                  [&] { return make_layers(of.model, more); },
                  {of.cut.begin(), of.cut.end()},
                  {},
                  of.recompute,
                  of.recompute_ranks,
                  of.values});
}

} // namespace sluice::actors
