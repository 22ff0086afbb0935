// What a pipeline of one stage costs over the same torch modules in a plain loop: every message,
// every view and copy between Sluice's memory and torch's. Printed, not judged: it depends on what
// else the machine does. Pairs of a loop and a step are timed in turn, and medians compared.
//
//     $ torch_overhead [WIDTH]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "actors/pipeline.hpp"
#include "kernels/torch/torch_module.hpp"

using namespace sluice;

namespace {

constexpr std::int32_t micro_batches = 4;
constexpr int pairs = 15;

at::Tensor half_square(const at::Tensor& output, const at::Tensor& target) {
  return (output - target).square().sum() / 2;
}

torch::nn::Sequential network(std::int64_t width) {
  torch::manual_seed(1);
  torch::nn::Sequential net;
  for (int i = 0; i < 4; ++i) {
    net->push_back(torch::nn::Linear(width, width));
    net->push_back(torch::nn::GELU());
  }
  return net;
}

template <class Function>
double seconds(Function run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// The optimizer that changes nothing: torch's loop has none either.
class no_update final : public nn::optimizer {
public:
  std::span<const std::string_view> state_names() const noexcept override { return {}; }
  void step(stream&, nn::parameter&, std::span<tensor>, double, std::uint64_t,
            double) const override {}
};

} // namespace

int main(int argc, char** argv) {
  const std::int64_t width = argc > 1 ? std::atoll(argv[1]) : 512;
  const std::int64_t rows = 64;
  at::set_num_threads(1);
  kernels::buffer_pool pool(kernels::make_cpu_device());
  batch data;
  for (std::int32_t m = 0; m < micro_batches; ++m)
    data.push_back({{pool.zeros(dtype::float32, {rows, width})},
                    {pool.zeros(dtype::float32, {rows, width})},
                    rows,
                    rows});
  auto net = network(width);
  const auto input = torch::zeros({rows, width});
  const auto loop = [&] {
    net->zero_grad(false);
    for (std::int32_t m = 0; m < micro_batches; ++m)
      half_square(net->forward(input), input).backward();
  };
  pipeline line({
    .plan = plan::make_plan("1f1b", {.stages = 1, .micro_batches = micro_batches}),
    .layers = [&] { return kernels::torch_layers("net", network(width), {.loss = half_square}); },
    .optimizer = std::make_shared<const no_update>(),
  });
  loop();
  line.step(data);
  std::vector<double> plain;
  std::vector<double> piped;
  for (int i = 0; i < pairs; ++i) {
    plain.push_back(seconds(loop));
    piped.push_back(seconds([&] { line.step(data); }));
  }
  const double task = median(plain) / (2 * micro_batches);
  std::printf("width %lld: %.2f ms a task, loop %.2f ms, pipeline %.2f ms a step: %+.1f%%\n",
              static_cast<long long>(width), 1e3 * task, 1e3 * median(plain), 1e3 * median(piped),
              100 * (median(piped) / median(plain) - 1));
}
