// What a pipeline of one stage costs over the same torch modules in a plain loop: every message,
// every view between Sluice's memory and torch's, the global norm. Printed, not judged: it depends
// on what else the machine does. A loop and a step are timed in turn, and the medians compared.
//
// Both run the same forwards and backwards on one thread each; neither updates the weights.
//
//     $ torch_overhead [--json]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "actors/pipeline.hpp"
#include "bench/measurement_json.hpp"
#include "kernels/torch/torch_module.hpp"

using namespace sluice;

namespace {

constexpr std::int32_t micro_batches = 8;
constexpr int pairs = 15;

/// Four Linear + GELU of so many features, on micro-batches of so many rows.
struct size {
  const char* name;
  std::int64_t width;
  std::int64_t rows;
};
constexpr size sizes[] = {{"LibTorch, large tasks", 512, 512}, {"LibTorch, tiny tasks", 64, 8}};

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

class no_update final : public nn::optimizer {
public:
  std::span<const std::string_view> state_names() const noexcept override { return {}; }
  void step(stream&, nn::parameter&, std::span<tensor>, double, std::uint64_t,
            double) const override {}
};

/// A pipeline of one stage, and the loop beside it. Units: seconds a step.
bench::measurement measure(const size& of) {
  torch::manual_seed(2);
  kernels::buffer_pool pool(kernels::make_cpu_device());
  batch data;
  std::vector<std::pair<at::Tensor, at::Tensor>> theirs;
  for (std::int32_t m = 0; m < micro_batches; ++m) {
    auto x = torch::randn({of.rows, of.width});
    auto y = torch::randn({of.rows, of.width});
    const auto ours = [&](const at::Tensor& from) {
      auto to = pool.allocate(dtype::float32, {of.rows, of.width});
      std::memcpy(to.bytes_span().data(), from.const_data_ptr(), to.bytes());
      return to;
    };
    data.push_back({{ours(x)}, {ours(y)}, of.rows, of.rows});
    theirs.emplace_back(std::move(x), std::move(y));
  }
  auto net = network(of.width);
  const auto loop = [&] {
    net->zero_grad(false);
    double loss = 0;
    for (const auto& [x, y] : theirs) {
      const auto sum = half_square(net->forward(x), y);
      loss += sum.item<double>();
      sum.backward();
    }
  };
  pipeline line({
    .plan = plan::make_plan("1f1b", {.stages = 1, .micro_batches = micro_batches}),
    .layers =
      [&] { return kernels::torch_layers("net", network(of.width), {.loss = half_square}); },
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
  return {of.name, median(piped), "s/step", "the same modules in a loop", median(plain)};
}

} // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1); // as a stage has
  auto cases = nlohmann::json::array();
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  for (const auto& size : sizes) {
    const auto line = measure(size);
    cases.push_back(bench::to_json(line));
    if (!json)
      std::printf("%-22s %8.3f ms a task in a loop, %+.1f us in the pipeline: %+.1f%%\n", size.name,
                  1e3 * line.peer_value / (2 * micro_batches),
                  1e6 * (line.value - line.peer_value) / (2 * micro_batches),
                  100 * (line.ratio() - 1));
  }
  if (json)
    std::printf("%s\n", nlohmann::json{{"cases", cases}}.dump(2).c_str());
}
