#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/torch/torch_optimizer.hpp"
#include "tests/torch/torch_doctest.hpp"

// Torch's optimizers over two stages against the same ones in a loop of LibTorch.

using namespace sluice;
using namespace sluice::tests;

namespace {

constexpr std::int64_t rows = 5;
constexpr int micro_batches = 3;
constexpr double rate = 0.03;

at::Tensor half_square(const at::Tensor& output, const at::Tensor& target) {
  return (output - target).square().sum() / 2;
}

torch::nn::Sequential network() {
  torch::manual_seed(4);
  return torch::nn::Sequential(torch::nn::Linear(width, 2 * width), torch::nn::GELU(),
                               torch::nn::Linear(2 * width, width));
}

std::vector<at::Tensor> data() {
  torch::manual_seed(5);
  std::vector<at::Tensor> made;
  for (int m = 0; m < 2 * micro_batches; ++m)
    made.push_back(torch::randn({rows, width}));
  return made;
}

batch to_batch(const std::vector<at::Tensor>& from) {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  const auto copied = [&](const at::Tensor& of) {
    auto made = pool.allocate(dtype::float32, {rows, width});
    std::copy_n(of.const_data_ptr<float>(), of.numel(), made.data<float>());
    return made;
  };
  batch made;
  for (std::size_t m = 0; m < micro_batches; ++m)
    made.push_back({{copied(from[2 * m])}, {copied(from[2 * m + 1])}, rows, rows});
  return made;
}

using weights = std::map<std::string, std::vector<float>>;

template <class Torch, class Options>
weights torch_alone(Options options, int steps) {
  at::set_num_threads(1);
  auto net = network();
  Torch optimizer(net->parameters(), options.lr(rate));
  const auto all = data();
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad(false);
    for (std::size_t m = 0; m < micro_batches; ++m) {
      const auto loss = half_square(net->forward(all[2 * m]), all[2 * m + 1]);
      loss.backward(at::full_like(loss, 1.0 / (micro_batches * rows)));
    }
    optimizer.step();
  }
  weights made;
  for (const auto& each : net->named_parameters()) {
    const auto* first = each.value().template const_data_ptr<float>();
    made["net." + each.key()].assign(first, first + each.value().numel());
  }
  return made;
}

template <class Options>
pipeline two_stages(const Options& options) {
  return pipeline({
    .plan = plan::make_plan("1f1b", {.stages = 2, .micro_batches = micro_batches}),
    .layers = [] { return kernels::torch_layers("net", network(), {.loss = half_square}); },
    .optimizer = kernels::make_torch_optimizer(options),
    .learning_rate = [](std::uint64_t) { return rate; },
    .clip = 0,
  });
}

/// The second half by a pipeline that knows of the first only what a checkpoint has.
template <class Options>
weights in_two_stages(const Options& options, int steps) {
  const auto all = to_batch(data());
  auto first = two_stages(options);
  for (int step = 0; step < steps / 2; ++step)
    first.step(all);
  auto second = two_stages(options);
  second.install(first.state());
  for (int step = steps / 2; step < steps; ++step)
    second.step(all);
  const auto state = second.state();
  weights made;
  for (const auto& each : state->parameters) {
    const auto values = each.tensors[0].template span<float>();
    made[each.name].assign(values.begin(), values.end());
  }
  return made;
}

template <class Torch, class Options>
void check_equal(const Options& options) {
  const auto expected = torch_alone<Torch>(options, 6);
  CHECK((expected != torch_alone<Torch>(options, 5)));
  CHECK((in_two_stages(options, 6) == expected));
}

} // namespace

TEST_CASE("torch's SGD in two stages equals LibTorch alone, byte for byte") {
  using torch::optim::SGDOptions;
  check_equal<torch::optim::SGD>(SGDOptions(rate));
  check_equal<torch::optim::SGD>(SGDOptions(rate).momentum(0.9).dampening(0.3).weight_decay(0.01));
  check_equal<torch::optim::SGD>(SGDOptions(rate).momentum(0.9).nesterov(true));
}

TEST_CASE("torch's Adam and AdamW in two stages equal LibTorch alone, byte for byte") {
  check_equal<torch::optim::Adam>(torch::optim::AdamOptions().weight_decay(0.01));
  check_equal<torch::optim::Adam>(torch::optim::AdamOptions().amsgrad(true));
  check_equal<torch::optim::AdamW>(torch::optim::AdamWOptions().weight_decay(0.1));
}

TEST_CASE("torch's RMSprop and Adagrad in two stages equal LibTorch alone, byte for byte") {
  check_equal<torch::optim::RMSprop>(torch::optim::RMSpropOptions());
  check_equal<torch::optim::RMSprop>(torch::optim::RMSpropOptions().momentum(0.5).centered(true));
  check_equal<torch::optim::Adagrad>(torch::optim::AdagradOptions().initial_accumulator_value(0.5));
}

TEST_CASE("options that torch refuses are refused when the optimizer is made") {
  CHECK_THROWS_AS(kernels::make_torch_optimizer(torch::optim::AdamWOptions().eps(-1)), c10::Error);
}
