// One's own module over two hosts. The same program is both: a worker that hosts stages, and the
// trainer that names the workers. What travels is data only, here the kind "bends" and its sizes;
// each process makes the layers itself.
//
//     host a$ two_hosts worker 127.0.0.1:4711
//     host b$ two_hosts worker 127.0.0.1:4712
//     host b$ two_hosts train 127.0.0.1:4711 127.0.0.1:4712
//
// `two_hosts alone` trains in one process, to the same numbers. Here both hosts are this one; other
// hosts need certificates: host_options::tls of both, as in docs/hosts.md.

#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>

#include <sluice/actors/crew.hpp>
#include <sluice/actors/worker.hpp>
#include <sluice/net/tcp/address.hpp>
#include <sluice/pipeline.hpp>

namespace {

namespace nn = sluice::nn;
namespace actors = sluice::actors;
using sluice::stream;
using sluice::tensor_list;

constexpr int stages = 4;
constexpr int micro_batches = 8;
constexpr std::int64_t rows = 64;

/// y = x + gain * tanh(x + bias), feature by feature. Shapes: [rows, width] -> [rows, width].
struct bend {
  std::int64_t width;
  nn::parameter gain;
  nn::parameter bias;

  std::vector<nn::parameter*> parameters() { return {&gain, &bias}; }

  void initialise(stream& on, std::uint64_t seed) {
    set_up(gain, on, seed, {.shape = {width}, .deviation = 0.1});
    set_up(bias, on, seed, {.shape = {width}, .deviation = 0.1});
  }

  float bent(float x, std::int64_t i) const {
    return std::tanh(x + bias.value.data<float>()[i % width]);
  }

  tensor_list forward(stream& on, const nn::micro_batch&, tensor_list inputs,
                      nn::activation& save) {
    const auto x = std::as_const(inputs[0]).span<float>();
    auto y = on.allocate(sluice::dtype::float32, inputs[0].shape());
    for (std::int64_t i = 0; i < y.elements(); ++i)
      y.data<float>()[i] = x[i] + gain.value.data<float>()[i % width] * bent(x[i], i);
    save.saved = {inputs[0]};
    return {y};
  }

  tensor_list backward(stream& on, const nn::micro_batch&, tensor_list gradients,
                       nn::activation& saved) {
    const auto x = std::as_const(saved.saved[0]).span<float>();
    const auto dy = std::as_const(gradients[0]).span<float>();
    auto dx = on.allocate(sluice::dtype::float32, gradients[0].shape());
    for (std::int64_t i = 0; i < dx.elements(); ++i) {
      const auto at = bent(x[i], i);
      const auto slope = gain.value.data<float>()[i % width] * (1 - at * at);
      dx.data<float>()[i] = dy[i] * (1 + slope);
      bias.gradient.data<float>()[i % width] += dy[i] * slope;
      gain.gradient.data<float>()[i % width] += dy[i] * at;
    }
    return {dx};
  }
};

/// Half the squared distance to the target, summed.
struct distance {
  nn::module_ports names{{{"curve"}, {"target"}}, {{.name = "loss", .loss = true}}};

  const nn::module_ports& ports() const { return names; }

  tensor_list forward(stream& on, const nn::micro_batch&, tensor_list inputs,
                      nn::activation& save) {
    auto off = on.allocate(sluice::dtype::float32, inputs[0].shape());
    auto loss = on.zeros(sluice::dtype::float64, {});
    for (std::int64_t i = 0; i < off.elements(); ++i) {
      off.data<float>()[i] =
        std::as_const(inputs[0]).data<float>()[i] - std::as_const(inputs[1]).data<float>()[i];
      loss.data<double>()[0] += 0.5 * std::pow(static_cast<double>(off.data<float>()[i]), 2);
    }
    save.saved = {off};
    return {loss};
  }

  tensor_list backward(stream& on, const nn::micro_batch& which, tensor_list,
                       nn::activation& saved) {
    auto gradient = on.allocate(sluice::dtype::float32, saved.saved[0].shape());
    for (std::int64_t i = 0; i < gradient.elements(); ++i)
      gradient.data<float>()[i] =
        std::as_const(saved.saved[0]).data<float>()[i] * static_cast<float>(which.loss_scale);
    return {gradient, {}};
  }
};

std::vector<nn::module_ptr> make_bends(const actors::model_recipe& of) {
  std::vector<nn::module_ptr> layers;
  for (std::int64_t i = 0; i < of.layers; ++i) {
    const auto name = "bend" + std::to_string(i);
    layers.push_back(
      nn::make_module(name, bend{of.width, {.name = name + ".gain"}, {.name = name + ".bias"}}));
  }
  layers.push_back(nn::make_module("distance", distance{}));
  return layers;
}

int host(const std::string& address) {
  actors::host_system hosts({});
  auto offer = std::make_shared<actors::worker_config>();
  offer->name = actors::name_of_this_process();
  offer->stages = stages;
  offer->models["bends"] = make_bends;
  offer->log = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  const actors::scoped_worker worker(hosts.system(), offer);
  auto at = sluice::net::parse_address(address);
  at.port = hosts.publish(worker.actor(), at);
  std::cout << "listening on " << sluice::net::to_string(at) << std::endl;
  std::cin.get(); // until Return, or the end of its input
  return 0;
}

sluice::batch make_batch(sluice::kernels::buffer_pool& pool, std::int64_t width) {
  sluice::batch data;
  for (int m = 0; m < micro_batches; ++m) {
    auto x = pool.allocate(sluice::dtype::float32, {rows, width});
    auto y = pool.allocate(sluice::dtype::float32, {rows, width});
    for (std::int64_t i = 0; i < rows * width; ++i) {
      const auto at = static_cast<float>((i * micro_batches + m) % 1000) / 500 - 1;
      x.data<float>()[i] = at;
      y.data<float>()[i] = std::sin(3 * at);
    }
    data.push_back({{x}, {y}, rows, rows});
  }
  return data;
}

/// workers: none for one process.
int train(const std::vector<std::string>& workers) {
  const actors::model_recipe model{.kind = "bends", .layers = 2 * stages - 1, .width = 16};
  sluice::pipeline_options options{
    .plan = sluice::plan::make_plan("1f1b", {.stages = stages, .micro_batches = micro_batches}),
    .layers = [model] { return make_bends(model); },
    .values = {.inputs = {"curve"}, .targets = {"target"}},
    .model = model,
    .update = actors::optimizer_recipe{.weight_decay = 0},
    .learning_rate = [](std::uint64_t) { return 0.02; },
  };
  if (!workers.empty()) {
    options.crew = std::make_shared<actors::crew>(actors::crew_options{.workers = workers});
    for (const auto& each : options.crew->call(actors::call_for::work, std::chrono::seconds(10)))
      if (!each.problem.empty())
        throw std::runtime_error(each.address + ": " + each.problem);
    for (std::size_t stage = 0; stage < stages; ++stage)
      options.placement.push_back(workers[stage * workers.size() / stages]);
  }
  sluice::pipeline line(std::move(options));
  sluice::kernels::buffer_pool pool(sluice::kernels::make_cpu_device());
  const auto data = make_batch(pool, model.width);
  for (int step = 0; step <= 200; ++step) {
    const auto loss = line.step(data).loss;
    if (step % 50 == 0)
      std::printf("step %d: loss %.17g\n", step, loss);
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 2 && words[0] == "worker")
      return host(words[1]);
    if (words.size() > 1 && words[0] == "train")
      return train({words.begin() + 1, words.end()});
    if (words.size() == 1 && words[0] == "alone")
      return train({});
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "error: %s\n", problem.what());
    return 1;
  }
  std::fprintf(stderr, "usage: two_hosts worker HOST:PORT | train HOST:PORT... | alone\n");
  return 2;
}
