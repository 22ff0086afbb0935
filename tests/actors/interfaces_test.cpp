#include <doctest/doctest.h>

#include <map>
#include <mutex>
#include <set>

#include "actors/model_layout.hpp"
#include "actors/pipeline.hpp"
#include "tests/actors/all_cuts.hpp"
#include "tests/support/port_modules.hpp"
#include "tests/support/recording_network.hpp"

// What the stages of a model are to each other: values that leap over stages, losses on any of
// them, stages without parameters, shared weights.

using namespace sluice;
using namespace sluice::tests;
using nn::make_module;

namespace {

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
