// Modules and an optimizer of LibTorch, four stages, no other change: a Sequential as one would
// write it for one device, cut by what its layers cost.
//
//   points --> [ Linear ReLU | Linear ReLU | Linear ReLU | Linear ] --> one of four quadrants

#include <cstdio>

#include <sluice/kernels/nn/profile.hpp>
#include <sluice/kernels/torch/torch_module.hpp>
#include <sluice/kernels/torch/torch_optimizer.hpp>
#include <sluice/pipeline.hpp>

namespace {

constexpr std::int32_t micro_batches = 8;
constexpr std::int64_t rows = 16;

std::vector<sluice::nn::module_ptr> make_layers() {
  torch::manual_seed(1);
  torch::nn::Sequential net;
  for (int i = 0; i < 3; ++i) {
    net->push_back(torch::nn::Linear(i == 0 ? 2 : 32, 32));
    net->push_back(torch::nn::ReLU());
  }
  net->push_back(torch::nn::Linear(32, 4));
  return sluice::kernels::torch_layers(
    "net", net, {.loss = [](const at::Tensor& logits, const at::Tensor& labels) {
      return torch::nn::functional::cross_entropy(
        logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
    }});
}

sluice::batch make_batch() {
  sluice::kernels::buffer_pool pool(sluice::kernels::make_cpu_device());
  torch::manual_seed(2);
  sluice::batch data;
  for (std::int32_t m = 0; m < micro_batches; ++m) {
    auto points = pool.allocate(sluice::dtype::float32, {rows, 2});
    auto labels = pool.allocate(sluice::dtype::int64, {rows});
    for (std::int64_t n = 0; n < rows; ++n) {
      const auto x = points.data<float>()[2 * n] = torch::rand({}).item<float>() - 0.5f;
      const auto y = points.data<float>()[2 * n + 1] = torch::rand({}).item<float>() - 0.5f;
      labels.data<std::int64_t>()[n] = (x > 0 ? 1 : 0) + (y > 0 ? 2 : 0);
    }
    data.push_back({{points}, {labels}, rows, rows});
  }
  return data;
}

/// What each layer costs, so that the stages come out alike.
std::vector<double> measure(const sluice::batch& data) {
  sluice::stream on(sluice::kernels::make_cpu_device());
  auto unwired = make_layers();
  const std::size_t one_part[] = {unwired.size()};
  const auto layers = sluice::nn::wire(std::move(unwired), {}, one_part).layers;
  for (const auto& layer : layers)
    layer->initialise(on, 1);
  auto inputs = data.front().inputs;
  inputs.push_back(data.front().targets.front());
  std::vector<double> costs;
  for (const auto& cost : sluice::nn::profile_layers(on, layers, inputs))
    costs.push_back(
      std::chrono::duration<double>(cost.forward + cost.backward_input + cost.backward_weight)
        .count());
  return costs;
}

} // namespace

int main() {
  sluice::kernels::keep_freed_memory();
  const auto data = make_batch();
  sluice::pipeline line({
    .plan = sluice::plan::make_plan("zb-h1", {.stages = 4, .micro_batches = micro_batches}),
    .layers = make_layers,
    .layer_costs = measure(data),
    .optimizer = sluice::kernels::make_torch_optimizer(torch::optim::AdamWOptions()),
    .learning_rate = [](std::uint64_t) { return 0.01; },
  });
  for (std::size_t stage = 0; stage < line.parts().size(); ++stage)
    std::printf("stage %zu: %s to %s\n", stage, line.parts()[stage].front().c_str(),
                line.parts()[stage].back().c_str());
  for (int step = 0; step <= 60; ++step) {
    const auto report = line.step(data);
    if (step % 20 == 0)
      std::printf("step %d: loss %.4f\n", step, report.loss);
  }
}
