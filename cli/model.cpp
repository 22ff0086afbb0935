#include "cli/model.hpp"

#include <algorithm>

#include "cli/failure.hpp"
#include "kernels/copy.hpp"
#include "kernels/nn/profile.hpp"
#include "kernels/nn/tie.hpp"

namespace sluice::cli {

namespace {

constexpr std::int64_t byte_values = 256;

} // namespace

std::vector<kernels::nn::module_ptr> make_layers(const recipe& what) {
  try {
    return actors::make_layers(model_of(what));
  } catch (const std::invalid_argument& problem) {
    throw usage_error(problem.what());
  }
}

actors::model_recipe model_of(const recipe& what) {
  return {.kind = what.model,
          .vocabulary = byte_values,
          .layers = what.layers,
          .width = what.width,
          .heads = what.heads,
          .length = what.length,
          .dropout = what.dropout,
          .tied = what.tied,
          .precision = what.precision};
}

actors::optimizer_recipe update_of(const recipe& what) {
  return {.kind = what.optimizer, .weight_decay = what.weight_decay, .momentum = 0.9};
}

double state_factor(const recipe& what) {
  const double value = what.precision == "bfloat16" ? 2 : 4;
  const double master = what.precision == "bfloat16" ? 4 : 0;
  const auto slots = actors::make_optimizer(update_of(what))->state_names().size();
  constexpr double gradient = 4;
  return (value + master + gradient + 4 * static_cast<double>(slots)) / value;
}

kernels::nn::lr_schedule make_lr_schedule(const recipe& what) {
  return {.peak = what.lr,
          .floor = what.lr / 10,
          .warm_up_steps = what.warm_up,
          .total_steps = what.steps,
          .after_warm_up = kernels::nn::lr_schedule::shape::cosine};
}

batch_maker::batch_maker(const recipe& what) : gpt_(what.model == "gpt"), length_(what.length) {}

actors::batch batch_maker::make(const token_batch& from, std::int64_t micro_batch_size) {
  actors::batch result;
  const auto size = static_cast<std::size_t>(micro_batch_size);
  for (std::size_t first = 0; first < from.samples; first += size)
    result.push_back(part(from, first, std::min(size, from.samples - first)));
  return result;
}

actors::batch_part batch_maker::part(const token_batch& from, std::size_t first,
                                     std::size_t count) {
  const auto rows = static_cast<std::int64_t>(count);
  const auto begin = first * from.length;
  const std::span<const std::int32_t> inputs(from.inputs.data() + begin, count * from.length);
  const std::span<const std::int32_t> targets(from.targets.data() + begin, count * from.length);
  actors::batch_part result;
  result.samples = rows;
  if (gpt_) {
    auto ids = pool_.allocate(kernels::dtype::int32, {rows, length_});
    auto following = pool_.allocate(kernels::dtype::int32, {rows, length_});
    std::ranges::copy(inputs, ids.span<std::int32_t>().begin());
    std::ranges::copy(targets, following.span<std::int32_t>().begin());
    result.valid_targets = rows * length_;
    result.inputs.push_back(std::move(ids));
    result.targets.push_back(std::move(following));
    return result;
  }
  auto features = pool_.allocate(kernels::dtype::float32, {rows, length_});
  auto labels = pool_.allocate(kernels::dtype::int32, {rows});
  std::ranges::transform(inputs, features.span<float>().begin(), [](std::int32_t byte) {
    return static_cast<float>(byte) / static_cast<float>(byte_values / 2) - 1.0F;
  });
  for (std::size_t row = 0; row < count; ++row)
    labels.span<std::int32_t>()[row] = targets[(row + 1) * from.length - 1];
  result.valid_targets = rows;
  result.inputs.push_back(std::move(features));
  result.targets.push_back(std::move(labels));
  return result;
}

actors::batch_part batch_maker::blank(std::int64_t micro_batch_size) {
  return make(zeros(static_cast<std::size_t>(micro_batch_size)), micro_batch_size).front();
}

actors::batch batch_maker::prompt(std::string_view text) {
  auto one = zeros(1);
  // A causal GPT is padded behind the text, an MLP, which looks at the last byte, before it.
  const auto used = std::min(text.size(), one.length);
  const auto offset = gpt_ ? 0 : one.length - used;
  for (std::size_t i = 0; i < used; ++i)
    one.inputs[offset + i] = static_cast<unsigned char>(text[text.size() - used + i]);
  auto result = make(one, 1);
  result.front().targets.clear();
  return result;
}

token_batch batch_maker::zeros(std::size_t samples) const {
  const auto length = static_cast<std::size_t>(length_);
  return {.samples = samples,
          .length = length,
          .inputs = std::vector<std::int32_t>(samples * length),
          .targets = std::vector<std::int32_t>(samples * length)};
}

std::vector<kernels::nn::layer_cost>
profile_model(const recipe& what, std::shared_ptr<kernels::device> on, int threads) {
  const auto sample = batch_maker(what).blank(what.micro_batch_size);
  kernels::stream stream(std::move(on), threads);
  const auto layers = make_layers(what);
  for (const auto& layer : layers)
    layer->initialise(stream, what.seed);
  const auto parameters = kernels::nn::all_parameters(layers);
  kernels::nn::tie_parameters(parameters);
  kernels::tensor_list inputs;
  for (const auto& given : {sample.inputs, sample.targets})
    for (const auto& each : given)
      inputs.push_back(kernels::copied(stream, each));
  return kernels::nn::profile_layers(stream, layers, inputs);
}

std::vector<double> measure_layers(const recipe& what, int threads) {
  std::vector<double> costs;
  for (const auto& cost : profile_model(what, kernels::make_cpu_device(), threads)) {
    const std::chrono::duration<double> all =
      cost.forward + cost.backward_input + cost.backward_weight;
    costs.push_back(all.count());
  }
  return costs;
}

} // namespace sluice::cli
