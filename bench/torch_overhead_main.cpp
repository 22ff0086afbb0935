// What a pipeline costs over the same torch modules in a plain loop: every message, every view
// between Sluice's memory and torch's, the copy of the batch, the global norm. Printed, not judged:
// it depends on what else the machine does. A loop and a step of each pipeline are timed in turn;
// ratios are medians over the rounds.
//
// All run the same forwards and backwards with one torch thread a stage; none updates the weights.
// The process keeps the memory that torch frees (keep_freed_memory()), which is better for both
// sides; with --trim it does not.
//
//     $ torch_overhead [--json] [--trim]

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/pipeline.hpp"
#include "bench/measurement_json.hpp"
#include "bench/rounds.hpp"
#include "kernels/torch/torch_module.hpp"

using namespace sluice;

namespace {

constexpr std::int32_t micro_batches = 8;
constexpr int rounds = 24;

/// Four Linear + GELU of so many features, on micro-batches of so many rows.
struct size {
  const char* name;
  std::int64_t width;
  std::int64_t rows;
};
constexpr size sizes[] = {{"LibTorch, tasks of about 10 ms", 512, 256},
                          {"LibTorch, tiny tasks", 64, 8}};

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

/// Of one run. Processor time is less disturbed by what else the machine does.
struct cost {
  double seconds;
  double processor_seconds; ///< of all threads
};

template <class Function>
cost cost_of(Function run) {
  const auto processor = std::clock();
  const auto begin = std::chrono::steady_clock::now();
  run();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC};
}

class no_update final : public nn::optimizer {
public:
  std::span<const std::string_view> state_names() const noexcept override { return {}; }
  void step(stream&, nn::parameter&, std::span<tensor>, double, std::uint64_t,
            double) const override {}
};

/// The same data for both sides.
struct data_set {
  batch ours;
  std::vector<std::pair<at::Tensor, at::Tensor>> theirs;
};

data_set make_data(const size& of) {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  const auto copied = [&](const at::Tensor& from) {
    auto to = pool.allocate(dtype::float32, {of.rows, of.width});
    std::memcpy(to.bytes_span().data(), from.const_data_ptr(), to.bytes());
    return to;
  };
  data_set made;
  for (std::int32_t m = 0; m < micro_batches; ++m) {
    auto x = torch::randn({of.rows, of.width});
    auto y = torch::randn({of.rows, of.width});
    made.ours.push_back({{copied(x)}, {copied(y)}, of.rows, of.rows});
    made.theirs.emplace_back(std::move(x), std::move(y));
  }
  return made;
}

pipeline make_pipeline(const size& of, std::int32_t stages) {
  return pipeline({
    .plan = plan::make_plan("1f1b", {.stages = stages, .micro_batches = micro_batches}),
    .layers =
      [&] { return kernels::torch_layers("net", network(of.width), {.loss = half_square}); },
    .optimizer = std::make_shared<const no_update>(),
  });
}

/// One stage beside the loop, and two beside what the plan makes of the loop's time, were they
/// equal and alone. Units: seconds a step.
std::vector<bench::measurement> measure(const size& of) {
  torch::manual_seed(2);
  const auto data = make_data(of);
  auto net = network(of.width);
  const auto loop = [&] {
    net->zero_grad(false);
    double loss = 0;
    for (const auto& [x, y] : data.theirs) {
      const auto sum = half_square(net->forward(x), y);
      loss += sum.item<double>();
      sum.backward();
    }
  };
  auto one = make_pipeline(of, 1);
  auto two = make_pipeline(of, 2);
  const std::string name = of.name;
  bench::series plain{"the same modules in a loop"};
  bench::series plain_processor{"the same modules in a loop"};
  bench::series planned{"the loop, as the plan divides it"};
  bench::series in_one{name + ", 1 stage"};
  bench::series in_one_processor{name + ", 1 stage, processor time"};
  bench::series in_two{name + ", 2 stages"};
  constexpr double share = (micro_batches + 1.0) / (2.0 * micro_batches);
  std::array order{0, 1, 2};
  for (int i = -2; i < rounds; ++i) { // two to warm up
    cost a{};
    cost b{};
    cost c{};
    const std::function<void()> turns[] = {
      [&] { a = cost_of(loop); },
      [&] { b = cost_of([&] { one.step(data.ours); }); },
      [&] { c = cost_of([&] { two.step(data.ours); }); },
    };
    // In all orders alike: each finds the caches and the clocks as the one before it left them.
    std::ranges::next_permutation(order);
    for (const auto turn : order)
      turns[turn]();
    if (i < 0)
      continue;
    plain.by_round.push_back(a.seconds);
    plain_processor.by_round.push_back(a.processor_seconds);
    planned.by_round.push_back(a.seconds * share);
    in_one.by_round.push_back(b.seconds);
    in_one_processor.by_round.push_back(b.processor_seconds);
    in_two.by_round.push_back(c.seconds);
  }
  return {bench::compare(in_one, "s/step", plain),
          bench::compare(in_one_processor, "s/step", plain_processor),
          bench::compare(in_two, "s/step", planned)};
}

} // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1); // as a stage has
  const auto has = [&](const char* word) {
    return std::any_of(argv + 1, argv + argc,
                       [&](const char* each) { return std::strcmp(each, word) == 0; });
  };
  if (!has("--trim"))
    kernels::keep_freed_memory();
  const bool json = has("--json");
  auto cases = nlohmann::json::array();
  for (const auto& size : sizes)
    for (const auto& line : measure(size)) {
      cases.push_back(bench::to_json(line));
      if (!json)
        std::printf("%-58s %8.2f ms a step, %8.2f ms %s: %+.1f%%\n", line.name.c_str(),
                    1e3 * line.value, 1e3 * line.peer_value, line.peer.c_str(),
                    100 * (line.ratio() - 1));
    }
  if (json)
    std::printf("%s\n", nlohmann::json{{"cases", cases}}.dump(2).c_str());
}
