#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include "actors/model_layout.hpp"
#include "actors/pipeline.hpp"
#include "actors/stress/serial_run.hpp"
#include "kernels/nn/gpt.hpp"
#include "kernels/nn/init.hpp"
#include "kernels/nn/mlp.hpp"
#include "tests/support/batches.hpp"
#include "tests/support/port_modules.hpp"
#include "tests/support/recording_network.hpp"

// What passes between stages: several named tensors, some optional or of integers, values that leap
// over stages, losses on any of them, shared weights, shapes that change. Whatever the cut and the
// schedule, the bytes are those of one stage.

using namespace sluice;
using namespace sluice::tests;
using layer_list = std::vector<kernels::nn::module_ptr>;
using nn::make_module;

namespace {

constexpr std::int64_t width = 5;

/// Random rows; micro-batches have 2, 1, 3, 2, ... of them.
batch rows(int micro_batches, std::size_t inputs = 1, std::uint64_t seed = 1) {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  batch data;
  for (int m = 0; m < micro_batches; ++m) {
    const std::int64_t samples = std::array{2, 1, 3}[static_cast<std::size_t>(m % 3)];
    batch_part part{.samples = samples, .valid_targets = samples};
    for (std::size_t i = 0; i < inputs + 1; ++i) {
      auto made = pool.allocate(dtype::float32, {samples, width});
      fill_initial(made, nn::normal(1), seed + i, std::to_string(m));
      (i < inputs ? part.inputs : part.targets).push_back(std::move(made));
    }
    data.push_back(std::move(part));
  }
  return data;
}

struct outcome {
  std::vector<double> losses;
  std::vector<double> norms;
  stress::byte_map bytes;
  double evaluation = 0;
  step_report last;

  bool operator==(const outcome& other) const {
    return losses == other.losses && norms == other.norms && bytes == other.bytes
        && evaluation == other.evaluation;
  }
};

pipeline_options options_of(std::string_view schedule, int stages, int micro_batches,
                            std::function<layer_list()> layers, nn::model_values values) {
  return {.plan = plan::make_plan(schedule, {.stages = stages, .micro_batches = micro_batches}),
          .layers = std::move(layers),
          .values = std::move(values),
          .optimizer = stress::keeping_gradients(nn::make_sgd()),
          .learning_rate = [](std::uint64_t) { return 0.01; }};
}

/// Three steps and an evaluation.
outcome train(pipeline_options options, const batch& data) {
  pipeline line(std::move(options));
  outcome made;
  for (int step = 0; step < 3; ++step) {
    made.last = line.step(data);
    made.losses.push_back(made.last.loss);
    made.norms.push_back(made.last.gradient_norm);
  }
  made.evaluation = line.evaluate(data).loss;
  made.bytes = stress::bytes_of(*line.state());
  return made;
}

/// Every schedule and stage count that fits the layers gives the outcome of one stage.
void check_all_cuts(const std::function<layer_list()>& layers, const nn::model_values& values,
                    const batch& data) {
  const auto micro_batches = static_cast<int>(data.size());
  const auto expected = train(options_of("gpipe", 1, micro_batches, layers, values), data);
  CHECK(expected.losses[2] < expected.losses[0]);
  const auto count = static_cast<int>(layers().size());
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-v"})
    for (int stages = 1; stages <= 4; ++stages)
      for (const bool recompute : {false, true}) {
        if (stages * (std::string_view(schedule) == "zb-v" ? 2 : 1) > count)
          continue;
        CAPTURE(schedule);
        CAPTURE(stages);
        CAPTURE(recompute);
        auto options = options_of(schedule, stages, micro_batches, layers, values);
        options.recompute = recompute;
        const auto got = train(std::move(options), data);
        CHECK(got.losses == expected.losses);
        CHECK(got.norms == expected.norms);
        CHECK(got.evaluation == expected.evaluation);
        CHECK((got.bytes == expected.bytes));
      }
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return {};
}

bool says(const std::string& text, std::string_view what) {
  return text.find(what) != std::string::npos;
}

/// Stage 0 of four gives h and, beside it, what stage 3 adds to it again.
layer_list with_skip() {
  layer_list layers;
  layers.push_back(make_module("first", gain("a", width, {{{"x"}}, {{"h"}, {"skip"}}})));
  layers.push_back(make_module("second", gain("b", width)));
  layers.push_back(make_module("third", gain("c", width)));
  layers.push_back(make_module("join", join({{{"h"}, {"skip"}}, {{"h"}}})));
  layers.push_back(make_module("loss", distance("h", "y")));
  return layers;
}

const nn::model_values x_and_y{.inputs = {"x"}, .targets = {"y"}};

} // namespace

TEST_CASE("a skip from stage 0 to stage 3 gives the bytes of one stage under every schedule") {
  check_all_cuts(with_skip, x_and_y, rows(8));
}

TEST_CASE("the gradients of a skip are those of the formula") {
  const auto data = rows(8);
  auto options = options_of("1f1b", 4, 8, with_skip, x_and_y);
  std::map<std::string, std::vector<float>> weights;
  std::map<std::string, std::vector<float>> gradients;
  std::mutex guard;
  options.events.gradients_ready = [&](std::int32_t, nn::parameter_list parameters) {
    const std::lock_guard lock(guard);
    for (auto& each : parameters) {
      const auto value = each.value.span<float>();
      const auto gradient = each.gradient.span<float>();
      weights[each.name].assign(value.begin(), value.end());
      gradients[each.name].assign(gradient.begin(), gradient.end());
    }
  };
  pipeline line(std::move(options));
  const auto report = line.step(data);
  // loss = sum over rows of (a b c x + x - y)^2 / 2, divided by the rows.
  std::map<std::string, std::vector<double>> expected{{"a", std::vector<double>(width)},
                                                      {"b", std::vector<double>(width)},
                                                      {"c", std::vector<double>(width)}};
  double loss = 0;
  double count = 0;
  for (const auto& part : data) {
    count += static_cast<double>(part.samples);
    for (std::int64_t i = 0; i < part.samples * width; ++i) {
      const auto column = static_cast<std::size_t>(i % width);
      const double a = weights["a"][column];
      const double b = weights["b"][column];
      const double c = weights["c"][column];
      const double x = std::as_const(part.inputs[0]).data<float>()[i];
      const double off = a * b * c * x + x - std::as_const(part.targets[0]).data<float>()[i];
      loss += 0.5 * off * off;
      expected["a"][column] += off * b * c * x;
      expected["b"][column] += off * a * c * x;
      expected["c"][column] += off * a * b * x;
    }
  }
  CHECK(report.loss == doctest::Approx(loss / count).epsilon(1e-5));
  for (const auto& [name, values] : expected)
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK(gradients[name][i] == doctest::Approx(values[i] / count).epsilon(1e-4));
}

TEST_CASE("what a skip carries lives no longer than the credits of the stages that it passes") {
  const auto result = train(options_of("1f1b", 4, 8, with_skip, x_and_y), rows(8));
  for (int stage = 0; stage < 4; ++stage)
    CHECK(result.last.stages[static_cast<std::size_t>(stage)].memory.peak_activations <= 4 - stage);
}

TEST_CASE("a plan's skip edges are taken if the model has them, and refused if not") {
  auto options = options_of("1f1b", 4, 8, with_skip, x_and_y);
  options.cut = {1, 1, 1, 2};
  options.plan.skips = {{0, 3}};
  CHECK(train(options, rows(8)) == train(options_of("gpipe", 1, 8, with_skip, x_and_y), rows(8)));
  options.plan.skips = {{0, 2}};
  CHECK(says(error_of([&] { pipeline line(options); }), "a skip from part 0 to part 2"));
}

TEST_CASE("losses on two stages: the step ends after both and reports each where it is") {
  const auto layers = [] {
    layer_list made;
    made.push_back(make_module("first", gain("a", width, {{{"x"}}, {{"h"}}})));
    made.push_back(make_module("early", distance("h", "z")));
    made.push_back(make_module("second", gain("b", width)));
    made.push_back(make_module("middle", distance("h", "z")));
    made.push_back(make_module("third", gain("c", width)));
    made.push_back(make_module("late", distance("h", "y")));
    return made;
  };
  const nn::model_values values{.inputs = {"x", "z"}, .targets = {"y"}};
  const auto data = rows(5, 2);
  check_all_cuts(layers, values, data);
  const auto report = train(options_of("1f1b", 3, 5, layers, values), data).last;
  double sum = 0;
  for (const auto& stage : report.stages) {
    REQUIRE(stage.loss.has_value());
    sum += *stage.loss;
  }
  CHECK(report.loss == doctest::Approx(sum / static_cast<double>(report.valid_targets)));
}

TEST_CASE("a loss in the middle: later stages train nothing, and still predict") {
  const auto layers = [] {
    layer_list made;
    made.push_back(make_module("first", gain("a", width, {{{"x"}}, {{"h"}}})));
    made.push_back(make_module("loss", distance("h", "z")));
    made.push_back(make_module("last", gain("b", width)));
    return made;
  };
  const nn::model_values values{.inputs = {"x", "z"}, .targets = {"y"}};
  auto data = rows(4, 2);
  check_all_cuts(layers, values, data);
  pipeline line(options_of("1f1b", 3, 4, layers, values));
  const auto report = line.step(data);
  CHECK_FALSE(report.stages[0].loss.has_value());
  CHECK(report.stages[1].loss.has_value());
  CHECK_FALSE(report.stages[2].loss.has_value());
  const auto outputs = line.predict(data);
  REQUIRE(outputs.size() == 4);
  CHECK(outputs[2].at(0).shape() == kernels::shape{3, width});
}

TEST_CASE("a stage without parameters in the middle trains, and adds nothing to the norm") {
  const auto layers = [] {
    auto made = with_skip();
    std::swap(made[1], made[3]); // first, join, third, second, loss
    return made;
  };
  check_all_cuts(layers, x_and_y, rows(4));
}

namespace {

/// Which inputs of which module were said to want no gradient, and how many it then left out.
struct skips {
  std::mutex guard;
  std::map<std::string, std::set<std::size_t>> told;
  std::atomic<int> left_out = 0;
};

/// A gain that computes no gradient that nobody wants.
class frugal_gain : public gain {
public:
  frugal_gain(std::shared_ptr<skips> noted, std::string weight, module_ports ports)
    : gain(weight, width, std::move(ports)),
      noted_(std::move(noted)),
      name_(std::move(weight)) {}

  void skip_input_gradient(std::size_t input) {
    const std::lock_guard lock(noted_->guard);
    noted_->told[name_].insert(input);
    skips_ = skips_ || input == 0;
  }

  tensor_list backward_input(stream& on, const micro_batch& which, tensor_list gradients,
                             activation& saved) {
    auto results = gain::backward_input(on, which, std::move(gradients), saved);
    if (skips_) {
      results[0] = {};
      ++noted_->left_out;
    }
    return results;
  }

private:
  std::shared_ptr<skips> noted_;
  std::string name_;
  bool skips_ = false;
};

} // namespace

TEST_CASE("a module is told which gradients of its inputs nobody wants, and may leave them out") {
  const auto noted = std::make_shared<skips>();
  // "ahead" has no weights: what it gives wants a gradient only where a weight lies behind it.
  const auto made = [&](bool frugal) {
    const auto weight = [&](const char* name, module_ports ports) {
      return frugal ? make_module(name, frugal_gain(noted, name, std::move(ports)))
                    : make_module(name, gain(name, width, std::move(ports)));
    };
    layer_list layers;
    layers.push_back(make_module("ahead", join({{{"x"}}, {{"ahead"}}})));
    layers.push_back(weight("a", {{{"ahead"}, {"x"}}, {{"h"}}}));
    layers.push_back(make_module("between", join({{{"h"}, {"ahead"}}, {{"h"}}})));
    layers.push_back(weight("b", {{{"h"}, {"ahead"}}, {{"h"}}}));
    layers.push_back(make_module("loss", distance("h", "y")));
    return layers;
  };
  const auto data = rows(4);
  check_all_cuts([&] { return made(true); }, x_and_y, data);
  CHECK((noted->told == decltype(noted->told){{"a", {0, 1}}, {"b", {1}}}));
  noted->left_out = 0;
  const auto frugal = train(options_of(
                              "1f1b", 2, 4, [&] { return made(true); }, x_and_y),
                            data);
  CHECK(noted->left_out == 3 * 4); // of "a" alone, once for each micro-batch of each step
  const auto plain = train(options_of(
                             "1f1b", 2, 4, [&] { return made(false); }, x_and_y),
                           data);
  CHECK((frugal == plain));
}

TEST_CASE("one weight on two stages, or twice on one, stays one weight") {
  const auto layers = [] {
    layer_list made;
    made.push_back(make_module("first", gain("shared", width, {{{"x"}}, {{"h"}}}, 0)));
    made.push_back(make_module("second", gain("b", width)));
    made.push_back(make_module("third", gain("c", width)));
    made.push_back(make_module("fourth", gain("shared", width, {{{"h"}}, {{"h"}}}, 1)));
    made.push_back(make_module("loss", distance("h", "y")));
    return made;
  };
  const auto data = rows(6);
  check_all_cuts(layers, x_and_y, data);
  for (const char* schedule : {"1f1b", "zb-v"}) {
    CAPTURE(schedule);
    auto options = options_of(schedule, 2, 6, layers, x_and_y);
    const auto network = std::make_shared<recording_network>(3);
    options.network = network;
    std::map<std::int32_t, std::vector<std::byte>> copies; // by rank
    std::mutex guard;
    options.events.gradients_ready = [&](std::int32_t rank, nn::parameter_list parameters) {
      const std::lock_guard lock(guard);
      for (auto& each : parameters)
        if (each.name == "shared") {
          const auto bytes = each.value.bytes_span();
          copies[rank].assign(bytes.begin(), bytes.end());
        }
    };
    pipeline line(std::move(options));
    for (int step = 0; step < 4; ++step)
      line.step(data);
    // The V puts first and last part on rank 0: nothing to exchange. Else both send theirs, once.
    const bool one_device = std::string_view(schedule) == "zb-v";
    CHECK(network->of(net::payload::twin).size() == (one_device ? 0 : 2 * 4));
    REQUIRE(copies.size() == (one_device ? 1 : 2));
    if (!one_device)
      CHECK((copies[0] == copies[1]));
  }
}

namespace {

/// Gives h, and ids and a mask that it makes of nothing.
class three_kinds {
public:
  explicit three_kinds(std::shared_ptr<std::atomic<int>> wrong) : wrong_(std::move(wrong)) {}

  const module_ports& ports() const { return ports_; }

  tensor_list forward(stream& on, const micro_batch&, tensor_list inputs, activation&) {
    const auto rows = inputs[0].shape()[0];
    auto ids = on.allocate(dtype::int64, {rows});
    auto mask = on.allocate(dtype::boolean, {rows, width});
    for (std::int64_t i = 0; i < rows; ++i)
      ids.data<std::int64_t>()[i] = (std::int64_t{1} << 40) + i;
    for (std::int64_t i = 0; i < rows * width; ++i)
      mask.data<bool>()[i] = i % 3 != 0;
    inputs.push_back(std::move(ids));
    inputs.push_back(std::move(mask));
    return inputs;
  }

  tensor_list backward(stream&, const micro_batch&, tensor_list gradients, activation&) {
    if (!gradients[0] || gradients[1] || gradients[2])
      ++*wrong_;
    return {std::move(gradients[0])};
  }

private:
  std::shared_ptr<std::atomic<int>> wrong_;
  module_ports ports_{{{"x"}},
                      {{"h", dtype::float32},
                       {"ids", dtype::int64, std::vector{port::any}},
                       {"mask", dtype::boolean, std::vector{port::any, width}}}};
};

/// h where the mask is set, if there is a mask and the ids are the right ones; zero elsewhere.
class masked {
public:
  explicit masked(std::int64_t columns = width, bool optional = false)
    : ports_{{{"h", dtype::float32},
              {.name = "ids", .type = dtype::int64, .optional = true},
              {"mask", dtype::boolean, std::vector{port::any, columns}, optional}},
             {{"h", dtype::float32}}} {}

  const module_ports& ports() const { return ports_; }

  tensor_list forward(stream& on, const micro_batch&, tensor_list inputs, activation& save) {
    if (inputs[1] && std::as_const(inputs[1]).data<std::int64_t>()[0] != std::int64_t{1} << 40)
      throw std::runtime_error("the ids are not what was sent");
    save.saved.push_back(inputs[2]);
    return {apply(on, inputs[0], inputs[2])};
  }

  tensor_list backward(stream& on, const micro_batch&, tensor_list gradients, activation& saved) {
    return {apply(on, gradients[0], saved.saved[0])};
  }

private:
  static tensor apply(stream& on, const tensor& to, const tensor& mask) {
    auto result = on.zeros(dtype::float32, to.shape());
    for (std::int64_t i = 0; i < to.elements(); ++i)
      if (!mask || mask.data<bool>()[i])
        result.data<float>()[i] = to.data<float>()[i];
    return result;
  }

  module_ports ports_;
};

layer_list with_mask(std::shared_ptr<std::atomic<int>> wrong) {
  layer_list layers;
  layers.push_back(make_module("kinds", three_kinds(std::move(wrong))));
  layers.push_back(make_module("first", gain("a", width)));
  layers.push_back(make_module("masked.1", masked()));
  layers.push_back(make_module("second", gain("b", width)));
  layers.push_back(make_module("masked.2", masked()));
  layers.push_back(make_module("loss", distance("h", "y")));
  return layers;
}

} // namespace

TEST_CASE("int64 ids and a bool mask pass beside floats, and only the floats have a gradient") {
  const auto wrong = std::make_shared<std::atomic<int>>(0);
  check_all_cuts([&] { return with_mask(wrong); }, x_and_y, rows(4));
  CHECK(wrong->load() == 0);
  auto options = options_of(
    "1f1b", 2, 4, [&] { return with_mask(wrong); }, x_and_y);
  options.cut = {1, 5};
  const auto network = std::make_shared<recording_network>(3);
  options.network = network;
  pipeline(std::move(options)).step(rows(4));
  const auto forward = network->of(net::payload::activation);
  REQUIRE(forward.size() == 4);
  CHECK(forward[0].tensors[0] == std::pair{true, dtype::float32});
  CHECK(forward[0].tensors[1] == std::pair{true, dtype::int64});
  CHECK(forward[0].tensors[2] == std::pair{true, dtype::boolean});
  for (const auto& each : network->of(net::payload::gradient)) {
    REQUIRE(each.tensors.size() == 3);
    CHECK(each.tensors[0] == std::pair{true, dtype::float32});
    CHECK_FALSE(each.tensors[1].first);
    CHECK_FALSE(each.tensors[2].first);
  }
}

TEST_CASE("a mask for stages 1 and 2 of a wrong shape or type is refused by stage and name") {
  const auto layers = [] {
    layer_list made;
    made.push_back(make_module("first", gain("a", width, {{{"x"}}, {{"h"}}})));
    made.push_back(make_module("masked.1", masked()));
    made.push_back(make_module("masked.2", masked()));
    made.push_back(make_module("loss", distance("h", "y")));
    return made;
  };
  pipeline line(options_of("1f1b", 4, 2, layers, {.inputs = {"x", "mask"}, .targets = {"y"}}));
  kernels::buffer_pool pool(kernels::make_cpu_device());
  auto data = rows(2);
  for (auto& part : data)
    part.inputs.push_back(pool.zeros(dtype::boolean, {part.samples, width}));
  CHECK_NOTHROW(line.step(data));
  data[1].inputs[1] = pool.zeros(dtype::boolean, {1, width + 2});
  auto failure = error_of([&] { line.step(data); });
  CHECK(says(failure, "rank 1: F1 of chunk 1: masked.1: the input 'mask' has the shape [1, 7], "
                      "declared [any, 5]"));
  data[1].inputs[1] = pool.zeros(dtype::int32, {1, width});
  failure = error_of([&] { line.step(data); });
  CHECK(says(failure, "masked.1: the input 'mask' has elements of I32, declared BOOL"));
  data[1].inputs[1] = {};
  failure = error_of([&] { line.step(data); });
  CHECK(says(failure, "masked.1: the input 'mask' is absent"));
  data[1].inputs[1] = pool.zeros(dtype::boolean, {1, width});
  CHECK_NOTHROW(line.step(data)); // still usable
}

TEST_CASE("an optional tensor may be absent in one micro-batch and there in the next") {
  const auto layers = [] {
    layer_list made;
    made.push_back(make_module("first", gain("a", width, {{{"x"}}, {{"h"}}})));
    made.push_back(make_module("masked.1", masked(width, true)));
    made.push_back(make_module("second", gain("b", width)));
    made.push_back(make_module("masked.2", masked(width, true)));
    made.push_back(make_module("loss", distance("h", "y")));
    return made;
  };
  auto data = rows(4);
  kernels::buffer_pool pool(kernels::make_cpu_device());
  for (std::size_t m = 0; m < data.size(); ++m) {
    auto mask = pool.zeros(dtype::boolean, {data[m].samples, width});
    mask.data<bool>()[m] = true;
    data[m].inputs.push_back(m % 2 == 0 ? mask : tensor{});
  }
  check_all_cuts(layers, {.inputs = {"x", "mask"}, .targets = {"y"}}, data);
}

TEST_CASE("micro-batches of length 22 and 23 in one step give the bytes of one stage") {
  const auto layers = [] {
    return nn::make_gpt({.vocabulary = 19, .layers = 2, .width = 8, .heads = 2, .length = 23});
  };
  kernels::buffer_pool pool(kernels::make_cpu_device());
  batch data;
  for (const std::int64_t length : {22, 23, 22, 1}) {
    auto ids = pool.allocate(dtype::int32, {2, length});
    auto targets = pool.allocate(dtype::int32, {2, length});
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      ids.data<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7 % 19);
      targets.data<std::int32_t>()[i] = static_cast<std::int32_t>((i + 1) * 7 % 19);
    }
    data.push_back({{ids}, {targets}, 2, 2 * length});
  }
  check_all_cuts(layers, {}, data);
}
