#include "bench/gpt_case.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>

#include "kernels/copy.hpp"
#include "kernels/nn/gpt.hpp"
#include "kernels/nn/tie.hpp"
#include "kernels/ops/sum_of_squares.hpp"

namespace sluice::bench {

namespace {

constexpr std::int64_t vocabulary = 256;
constexpr double clip = 1;
constexpr double learning_rate = 1e-3;

} // namespace

std::vector<kernels::nn::module_ptr> make_layers(const gpt_case& of) {
  return kernels::nn::make_gpt({.vocabulary = vocabulary,
                                .layers = of.layers,
                                .width = of.width,
                                .heads = of.heads,
                                .length = of.length});
}

actors::batch make_batch(const gpt_case& of) {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  std::mt19937 bits(1);
  const auto bytes = [&] {
    auto made = pool.allocate(kernels::dtype::int32, {of.samples, of.length});
    for (auto& each : made.span<std::int32_t>())
      each = static_cast<std::int32_t>(bits() % vocabulary);
    return made;
  };
  actors::batch made;
  for (std::int32_t m = 0; m < of.micro_batches; ++m)
    made.push_back({{bytes()}, {bytes()}, of.samples, of.samples * of.length});
  return made;
}

actors::pipeline make_pipeline(const gpt_case& of, std::string_view schedule, std::int32_t stages) {
  return actors::pipeline({
    .plan = plan::make_plan(schedule, {.stages = stages, .micro_batches = of.micro_batches}),
    .layers = [of] { return make_layers(of); },
    .learning_rate = [](std::uint64_t) { return learning_rate; },
    .clip = clip,
  });
}

plain_loop::plain_loop(const gpt_case& of)
  : on_(kernels::make_cpu_device()),
    layers_(make_layers(of)),
    optimizer_(kernels::nn::make_adamw()) {
  for (const auto& layer : layers_) {
    layer->initialise(on_, 1);
    saved_.push_back(layer->make_activation());
  }
  all_ = kernels::nn::all_parameters(layers_);
  kernels::nn::tie_parameters(all_);
  std::set<std::string> names;
  for (auto* each : all_)
    if (names.insert(each->name).second) {
      leads_.push_back(each);
      states_.push_back(optimizer_->make_state(on_, *each));
    }
}

double plain_loop::step(const actors::batch& data) {
  std::int64_t valid = 0;
  for (const auto& part : data)
    valid += part.valid_targets;
  kernels::nn::zero_gradients(all_);
  kernels::nn::micro_batch which{
    .seed = 1, .step = steps_, .loss_scale = 1 / static_cast<double>(valid), .split = false};
  double loss = 0;
  for (const auto& part : data) {
    auto flowing = part.inputs;
    flowing.insert(flowing.end(), part.targets.begin(), part.targets.end());
    for (std::size_t i = 0; i < layers_.size(); ++i)
      flowing = layers_[i]->forward(on_, which, std::move(flowing), saved_[i]);
    loss += kernels::read_scalar(flowing.front());
    flowing.clear();
    for (std::size_t i = layers_.size(); i-- > 0;) {
      flowing = layers_[i]->backward_input(on_, which, std::move(flowing), saved_[i]);
      layers_[i]->backward_weight(on_, which, saved_[i]);
    }
    which.first_sample += part.samples;
  }
  kernels::nn::add_tied_gradients(on_, all_);
  std::vector<kernels::tensor> gradients;
  for (const auto* each : leads_)
    gradients.push_back(each->gradient);
  double squares = 0;
  for (const auto each : kernels::ops::sums_of_squares(on_, gradients))
    squares += each;
  ++steps_;
  for (std::size_t i = 0; i < leads_.size(); ++i)
    optimizer_->step(on_, *leads_[i], states_[i], learning_rate, steps_,
                     std::min(1.0, clip / std::sqrt(squares)));
  return loss / static_cast<double>(valid);
}

} // namespace sluice::bench
