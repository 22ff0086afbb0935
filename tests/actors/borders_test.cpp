#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "actors/model_layout.hpp"
#include "actors/pipeline.hpp"
#include "actors/stress/serial_run.hpp"
#include "kernels/nn/cast.hpp"
#include "kernels/nn/linear.hpp"
#include "kernels/nn/mlp.hpp"
#include "kernels/ops/cast.hpp"
#include "tests/support/port_modules.hpp"
#include "tests/support/recording_network.hpp"

// Where a model is cut: what fits together, what is refused when the pipeline is built, and a
// border between two types of numbers.

using namespace sluice;
using namespace sluice::tests;
using layer_list = std::vector<kernels::nn::module_ptr>;
using nn::make_module;

namespace {

std::string refusal(const std::function<layer_list()>& layers, nn::model_values values,
                    int stages = 2) {
  try {
    pipeline line({.plan = plan::make_plan("1f1b", {.stages = stages, .micro_batches = 2}),
                   .layers = layers,
                   .values = std::move(values)});
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "not refused";
}

/// Two layers and a loss, with these ports of the two.
std::string refusal_of(const module_ports& first, const module_ports& second) {
  return refusal(
    [&] {
      layer_list layers;
      layers.push_back(make_module("first", gain("a", 4, first)));
      layers.push_back(make_module("second", gain("b", 4, second)));
      layers.push_back(make_module("loss", distance("h", "y")));
      return layers;
    },
    {.inputs = {"x"}, .targets = {"y"}});
}

std::vector<std::int64_t> extents(std::int64_t last) {
  return {port::any, last};
}

} // namespace

TEST_CASE("each layer of 2 to 40 is on exactly one of 1 to 8 stages, or there are too few") {
  for (std::size_t count = 2; count <= 40; ++count) // an MLP has two layers at least
    for (int stages = 1; stages <= 8; ++stages) {
      CAPTURE(count);
      CAPTURE(stages);
      pipeline_options options{
        .plan = plan::make_plan("1f1b", {.stages = stages, .micro_batches = 2}), .layers = [count] {
          return nn::make_mlp({.layers = static_cast<std::int64_t>(count) - 1});
        }};
      if (count < static_cast<std::size_t>(stages)) {
        CHECK_THROWS_WITH_AS(actors::lay_out(actors::layout_of(options)),
                             doctest::Contains(std::to_string(stages).c_str()),
                             std::invalid_argument);
        continue;
      }
      const auto layout = actors::lay_out(actors::layout_of(options));
      std::vector<std::string> names;
      for (const auto& part : layout.part_layers) {
        CHECK_FALSE(part.empty());
        names.insert(names.end(), part.begin(), part.end());
      }
      CHECK(names.size() == count);
      CHECK(std::set(names.begin(), names.end()).size() == names.size());
      std::multiset<std::string> parameters;
      for (const auto& rank : layout.chunks)
        for (const auto& chunk : rank)
          for (auto& each : chunk.module->parameters())
            parameters.insert(each.name);
      CHECK(parameters.size() == 2 * count);
      CHECK(std::set(parameters.begin(), parameters.end()).size() == parameters.size());
    }
}

TEST_CASE("a sender of 64 elements and a receiver of 128 are refused with both sizes") {
  const auto text = refusal_of({{{"x"}}, {{"h", dtype::float32, extents(64)}}},
                               {{{"h", dtype::float32, extents(128)}}, {{"h"}}});
  CHECK(text == "first gives 'h: F32 [any, 64]', but second takes 'h: F32 [any, 128]'");
}

TEST_CASE("a border that declares nothing fails at the receiver, by layer and with both sizes") {
  pipeline line({.plan = plan::make_plan("1f1b", {.stages = 2, .micro_batches = 1}),
                 .layers =
                   [] {
                     layer_list layers;
                     layers.push_back(nn::make_linear("first", {4, 64}));
                     layers.push_back(nn::make_linear("second", {128, 4}));
                     layers.push_back(make_module("loss", distance("h", "y")));
                     return layers;
                   },
                 .values = {.inputs = {"h"}, .targets = {"y"}},
                 .cut = {1, 2}});
  kernels::buffer_pool pool(kernels::make_cpu_device());
  const batch data{
    {{pool.zeros(dtype::float32, {3, 4})}, {pool.zeros(dtype::float32, {3, 4})}, 3, 3}};
  CHECK_THROWS_WITH_AS(line.step(data),
                       doctest::Contains("rank 1: F0 of chunk 1: second: product: [3, 64] x "
                                         "[128, 4] does not give"),
                       pipeline_error);
}

TEST_CASE("a sender of another type than the receiver's is refused with both") {
  const auto text =
    refusal_of({{{"x"}}, {{"h", dtype::bfloat16}}}, {{{"h", dtype::float32}}, {{"h"}}});
  CHECK(text == "first gives 'h: BF16', but second takes 'h: F32'");
}

TEST_CASE(
  "a module that does not give what it declares fails where it is, before anything is sent") {
  pipeline line({.plan = plan::make_plan("1f1b", {.stages = 2, .micro_batches = 1}),
                 .layers =
                   [] {
                     layer_list layers;
                     layers.push_back(make_module(
                       "first", gain("a", 4, {{{"x"}}, {{"h", dtype::float32, extents(64)}}})));
                     layers.push_back(make_module("loss", distance("h", "y")));
                     return layers;
                   },
                 .values = {.inputs = {"x"}, .targets = {"y"}}});
  kernels::buffer_pool pool(kernels::make_cpu_device());
  const batch data{
    {{pool.zeros(dtype::float32, {1, 4})}, {pool.zeros(dtype::float32, {1, 4})}, 1, 1}};
  CHECK_THROWS_WITH_AS(line.step(data),
                       doctest::Contains("rank 0: F0 of chunk 0: first: the output 'h' has the "
                                         "shape [1, 4], declared [any, 64]"),
                       pipeline_error);
}

TEST_CASE("two tensors given where the next takes one are refused when the pipeline is built") {
  CHECK(refusal_of({{{"x"}}, {{"h"}, {"extra"}}}, {{{"h"}}, {{"h"}}})
        == "first gives 'extra', which no later layer takes");
  CHECK(refusal_of({{{"x"}}, {{"h"}}}, {{{"h"}, {"mask"}}, {{"h"}}})
        == "second takes 'mask', which no layer before it and no input of the model gives");
}

TEST_CASE("what is wrong with names is refused when the pipeline is built") {
  const auto layers = [] {
    layer_list made;
    made.push_back(make_module("first", gain("a", 4, {{{"x"}}, {{"h"}}})));
    made.push_back(make_module("early", distance("h", "y")));
    made.push_back(make_module("second", gain("b", 4)));
    made.push_back(make_module("late", distance("h", "y")));
    return made;
  };
  CHECK(refusal(layers, {.inputs = {"x"}, .targets = {"y"}}, 4)
        == "early (part 1 of 4) takes the target 'y', which reaches the last part only: give it "
           "among the inputs");
  CHECK(refusal(layers, {.inputs = {}}, 2) == "the model has no inputs: name them in values");
  CHECK(refusal(layers, {.inputs = {"x", "y", "z"}}, 2)
        == "the batch gives 'z', which no later layer takes");
  CHECK(refusal(
          [] {
            layer_list made;
            made.push_back(make_module("first", gain("a", 4, {{{"x"}}, {{"h"}}})));
            made.push_back(make_module("last", gain("b", 4)));
            return made;
          },
          {.inputs = {"x"}}, 2)
        == "no layer of the model gives a loss");
}

TEST_CASE("a border of bfloat16 and float32: a declared cast, the gradient in the sender's type") {
  const auto layers = [] {
    layer_list made;
    made.push_back(nn::make_linear("first", {.inputs = 6, .outputs = 5, .deviation = 0.3}));
    made.push_back(nn::make_cast("narrow", dtype::float32, dtype::bfloat16));
    made.push_back(nn::make_cast("widen", dtype::bfloat16, dtype::float32));
    auto rest = nn::make_mlp({.features = 5, .width = 4, .layers = 1, .classes = 3});
    made.push_back(nn::make_linear("second", {.inputs = 5, .outputs = 4, .deviation = 0.3}));
    made.push_back(std::move(rest.back()));
    return made;
  };
  kernels::buffer_pool pool(kernels::make_cpu_device());
  batch data;
  for (int m = 0; m < 4; ++m) {
    auto x = pool.allocate(dtype::float32, {2, 6});
    fill_initial(x, nn::normal(1), 3, std::to_string(m));
    data.push_back({{x}, {pool.zeros(dtype::int32, {2})}, 2, 2});
  }
  const auto run = [&](int stages, std::vector<std::size_t> cut,
                       std::shared_ptr<net::network> network) {
    pipeline line({.plan = plan::make_plan("1f1b", {.stages = stages, .micro_batches = 4}),
                   .layers = layers,
                   .cut = std::move(cut),
                   .network = std::move(network)});
    line.step(data);
    line.step(data);
    return stress::bytes_of(*line.state());
  };
  const auto network = std::make_shared<recording_network>(3);
  CHECK((run(1, {}, nullptr) == run(2, {2, 3}, network)));
  for (const auto kind : {net::payload::activation, net::payload::gradient}) {
    const auto sent = network->of(kind);
    REQUIRE(sent.size() == 8);
    for (const auto& each : sent)
      CHECK(each.tensors.at(0) == std::pair{true, dtype::bfloat16});
  }
}

TEST_CASE("a cast rounds to the nearest, ties to even, and keeps what is no number") {
  kernels::stream on(kernels::make_cpu_device());
  struct row {
    float from;
    std::uint16_t bits;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto& [from, bits] : {row{1.0f, 0x3f80}, row{1.00390625f, 0x3f80}, // a tie, down
                                   row{1.01171875f, 0x3f82},                    // a tie, up
                                   row{1.004f, 0x3f81}, row{-2.5f, 0xc020}, row{infinity, 0x7f80},
                                   row{3.4028235e38f, 0x7f80}, row{-0.0f, 0x8000}}) {
    auto x = on.allocate(dtype::float32, {1});
    x.data<float>()[0] = from;
    const auto narrow = kernels::ops::cast(on, x, dtype::bfloat16);
    CHECK(narrow.data<kernels::bfloat16>()[0].bits == bits);
    const auto wide = kernels::ops::cast(on, narrow, dtype::float64);
    if (bits == 0x3f82)
      CHECK(wide.data<double>()[0] == 1.015625);
  }
  auto x = on.allocate(dtype::float32, {1});
  x.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const auto narrow = kernels::ops::cast(on, x, dtype::bfloat16);
  const auto again = kernels::ops::cast(on, narrow, dtype::float32);
  CHECK(std::isnan(again.data<float>()[0]));
  CHECK_THROWS_AS(kernels::ops::cast(on, x, dtype::int32), std::invalid_argument);
}
