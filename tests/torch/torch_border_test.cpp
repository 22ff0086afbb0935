#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/torch/torch_doctest.hpp"

// What passes into and out of torch modules, and what is refused.

using namespace sluice;
using namespace sluice::tests;

namespace {

/// Two tensors in, three out: what is embedded, the ids, and which of them count.
struct ids_module : torch::nn::Module {
  torch::nn::Embedding table{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};

  ids_module() {
    table = register_module("table", torch::nn::Embedding(classes, width));
    norm = register_module("norm", torch::nn::BatchNorm1d(width));
  }

  kernels::torch_tensors forward(const kernels::torch_tensors& inputs) {
    return {norm(table(inputs.at(0))), inputs.at(0), inputs.at(0) > 0};
  }
};

struct masked_head : torch::nn::Module {
  torch::nn::Linear linear{nullptr};

  masked_head() { linear = register_module("linear", torch::nn::Linear(width, classes)); }

  kernels::torch_tensors forward(const kernels::torch_tensors& inputs) {
    return {linear(inputs.at(0)) * inputs.at(1).unsqueeze(-1)};
  }
};

} // namespace

TEST_CASE("integers, truth values and buffers pass through torch modules without a gradient") {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  batch data;
  for (int m = 0; m < 4; ++m) {
    auto ids = pool.allocate(dtype::int64, {classes});
    auto labels = pool.allocate(dtype::int64, {classes});
    for (std::int64_t i = 0; i < classes; ++i) {
      ids.data<std::int64_t>()[i] = (i + m) % classes;
      labels.data<std::int64_t>()[i] = (i + m + 1) % classes;
    }
    data.push_back({{ids}, {labels}, classes, classes});
  }
  const auto run = [&](int stages) {
    pipeline line({
      .plan = plan::make_plan("1f1b", {.stages = stages, .micro_batches = 4}),
      .layers =
        [] {
          torch::manual_seed(3);
          auto first = std::make_shared<ids_module>();
          auto second = std::make_shared<masked_head>();
          return nn::make_layers(
            kernels::make_torch_module(
              "first", first, [first](const auto& inputs) { return first->forward(inputs); },
              {.ports =
                 {{{"ids", dtype::int64}},
                  {{"h", dtype::float32}, {"same", dtype::int64}, {"mask", dtype::boolean}}}}),
            kernels::make_torch_module(
              "second", second, [second](const auto& inputs) { return second->forward(inputs); },
              {.loss = sum_loss,
               .ports = {{{"h"},
                          {"mask"},
                          {.name = "same", .optional = true},
                          {.name = "y", .optional = true}},
                         {{.name = "loss", .loss = true}}}}));
        },
      .values = {.inputs = {"ids"}, .targets = {"y"}},
      .learning_rate = [](std::uint64_t) { return 0.05; },
    });
    std::vector<double> losses;
    for (int step = 0; step < 10; ++step)
      losses.push_back(line.step(data).loss);
    CHECK((line.predict(data)[1].at(0).shape() == kernels::shape{classes, classes}));
    return losses;
  };
  const auto losses = run(1);
  CHECK(losses.back() < losses.front());
  CHECK(run(2) == losses);
}

namespace {

/// A Linear that notes where its input and output lie, and whether autograd wants the former's
/// gradient.
struct watched : torch::nn::Module {
  struct seen {
    const void* input;
    const void* output;
    bool wants_gradient;
    bool begins_graph;
  };
  torch::nn::Linear linear{nullptr};
  std::shared_ptr<std::vector<seen>> log = std::make_shared<std::vector<seen>>();

  watched() { linear = register_module("linear", torch::nn::Linear(width, width)); }

  at::Tensor forward(const at::Tensor& x) {
    const auto y = linear(x);
    log->push_back({x.const_data_ptr(), y.const_data_ptr(), x.requires_grad(), x.is_leaf()});
    return y;
  }
};

batch rows_of(float value, int micro_batches) {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  batch data;
  for (int m = 0; m < micro_batches; ++m) {
    data.push_back(
      {{pool.allocate(dtype::float32, {3, width})}, {pool.zeros(dtype::int64, {3})}, 3, 3});
    std::ranges::fill(data.back().inputs[0].span<float>(), value);
  }
  return data;
}

/// Three of them in a pipeline, and what they saw in a step of four micro-batches.
std::vector<std::vector<watched::seen>> seen_by_three(const char* schedule, int stages) {
  std::vector<std::shared_ptr<std::vector<watched::seen>>> logs;
  pipeline line({
    .plan = plan::make_plan(schedule, {.stages = stages, .micro_batches = 4}),
    .layers =
      [&] {
        torch::nn::Sequential net;
        for (int i = 0; i < 3; ++i) {
          const auto each = std::make_shared<watched>();
          logs.push_back(each->log);
          net->push_back(each);
        }
        return kernels::torch_layers("net", net,
                                     {.loss = [](const auto& y, const auto&) { return y.sum(); }});
      },
  });
  line.step(rows_of(1, 4));
  std::vector<std::vector<watched::seen>> all;
  for (const auto& each : logs) {
    REQUIRE(each->size() == 4);
    all.push_back(*each);
  }
  return all;
}

} // namespace

TEST_CASE("between stages goes torch's memory, and nobody computes the gradient of the batch") {
  const auto seen = seen_by_three("1f1b", 3);
  for (std::size_t stage = 0; stage < 3; ++stage)
    for (std::size_t m = 0; m < 4; ++m) {
      CHECK(seen[stage][m].wants_gradient == (stage > 0));
      if (stage > 0)
        CHECK(seen[stage][m].input == seen[stage - 1][m].output);
    }
}

TEST_CASE("modules of one chunk share a graph, unless the plan splits their backward") {
  for (const bool split : {false, true}) {
    const auto seen = seen_by_three(split ? "zb-h1" : "1f1b", 1);
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t m = 0; m < 4; ++m)
        CHECK(seen[i][m].begins_graph == (i == 0 || split));
  }
}

TEST_CASE("two torch modules with one parameter are refused by name") {
  torch::nn::Sequential net;
  const torch::nn::Linear twice(width, width);
  net->push_back(twice);
  net->push_back(torch::nn::GELU());
  net->push_back(twice);
  CHECK_THROWS_WITH_AS(kernels::torch_layers("net", net, {.loss = sum_loss}),
                       doctest::Contains("net.2: shares a parameter with net.0"),
                       std::invalid_argument);
}

TEST_CASE("a torch module that works in place is refused, with the batch as it was") {
  const auto in_place = [](const at::Tensor& x) { return x.detach().relu_(); };
  const auto honest = [](const at::Tensor& x) { return x.relu_(); }; // torch notices itself
  for (const bool hidden : {false, true})
    for (const std::size_t at : {0u, 1u}) {
      CAPTURE(hidden);
      CAPTURE(at);
      pipeline line({
        .plan = plan::make_plan("1f1b", {.stages = 2, .micro_batches = 2}),
        .layers =
          [&] {
            torch::nn::Sequential net;
            if (at == 1)
              net->push_back(torch::nn::Linear(width, width));
            if (hidden)
              net->push_back(torch::nn::Functional(in_place));
            else
              net->push_back(torch::nn::Functional(honest));
            net->push_back(torch::nn::Linear(width, classes));
            return kernels::torch_layers("net", net, {.loss = sum_loss});
          },
      });
      const auto data = rows_of(-1, 2);
      const auto wanted =
        "net." + std::to_string(at) + ": changes its input, or a weight, in place";
      CHECK_THROWS_WITH_AS(line.step(data), doctest::Contains(wanted.c_str()), pipeline_error);
      CHECK_THROWS_WITH_AS(line.evaluate(data), doctest::Contains(wanted.c_str()), pipeline_error);
      CHECK_THROWS_WITH_AS(line.predict(data), doctest::Contains(wanted.c_str()), pipeline_error);
      CHECK(std::ranges::count(std::as_const(data[0].inputs[0]).span<float>(), -1) == 3 * width);
    }
}

TEST_CASE("what torch refuses is an error that names the module and the place") {
  pipeline line({.plan = plan::make_plan("1f1b", {.stages = 2, .micro_batches = 1}), .layers = [] {
                   return kernels::torch_layers(
                     "net", torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::Linear(5, 2)),
                     {.loss = sum_loss});
                 }});
  kernels::buffer_pool pool(kernels::make_cpu_device());
  const batch data{{{pool.zeros(dtype::float32, {2, 3})}, {pool.zeros(dtype::int64, {2})}, 2, 2}};
  CHECK_THROWS_WITH_AS(line.step(data),
                       doctest::Contains("rank 1: F0 of chunk 1: net.1: addmm: mat1 and mat2"),
                       pipeline_error);
}

// -- scripted modules --------------------------------------------------------------------------
