#include <doctest/doctest.h>

#include <cmath>

#include "actors/pipeline.hpp"
#include "actors/stress/serial_run.hpp"
#include "kernels/nn/gpt.hpp"
#include "tests/support/batches.hpp"
#include "tests/support/recording_network.hpp"

// Training in bfloat16 with float32 masters: that it learns what float32 learns, and that a state
// goes on bit for bit elsewhere. That every schedule gives the same bytes is in exactness_test.cpp.

using namespace sluice;

namespace {

constexpr std::int64_t vocabulary = 19;
constexpr std::int64_t length = 12;
constexpr int micro_batches = 4;

actors::pipeline_options options_for(dtype type, int stages) {
  return {.plan = plan::make_plan("1f1b", {.stages = stages, .micro_batches = micro_batches}),
          .layers =
            [type] {
              return kernels::nn::make_gpt({.vocabulary = vocabulary,
                                            .layers = 2,
                                            .width = 24,
                                            .heads = 3,
                                            .length = length,
                                            .dropout = 0.1},
                                           type);
            },
          .optimizer = kernels::nn::make_adamw(),
          .learning_rate = [](std::uint64_t) { return 3e-3; },
          .clip = 1};
}

/// Something to learn: each token is the one before it plus a step that the first two show.
actors::batch sequences(std::uint64_t seed) {
  tests::token_batches random(vocabulary, length);
  const std::vector<std::int64_t> samples(micro_batches, 4);
  auto batch = random.make(seed, samples);
  for (auto& part : batch) {
    const auto ids = part.inputs[0].span<std::int32_t>();
    const auto targets = part.targets[0].span<std::int32_t>();
    for (std::size_t row = 0; row < ids.size(); row += length) {
      const auto step = ids[row + 1] % 3 + 1;
      for (std::size_t i = row; i < row + length; ++i) {
        targets[i] = (ids[i] + step) % static_cast<std::int32_t>(vocabulary);
        if (i + 1 < row + length)
          ids[i + 1] = targets[i];
      }
    }
  }
  return batch;
}

std::vector<double> losses_of(dtype type, int steps) {
  actors::pipeline line(options_for(type, 2));
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step)
    losses.push_back(line.train(sequences(static_cast<std::uint64_t>(step) + 1)).loss);
  return losses;
}

} // namespace

TEST_CASE("bfloat16 learns what float32 learns: over 60 steps no loss is off by more than 0.3%") {
  constexpr double allowed = 0.003; // measured: 0.0006
  const auto expected = losses_of(dtype::float32, 60);
  const auto losses = losses_of(dtype::bfloat16, 60);
  double most = 0;
  for (std::size_t i = 0; i < losses.size(); ++i)
    most = std::max(most, std::abs(losses[i] - expected[i]) / expected[i]);
  MESSAGE("the most is ", 100 * most, "%; the losses end at ", losses.back(), " and ",
          expected.back());
  CHECK(most <= allowed);
  CHECK(losses.back() < 0.6 * losses.front());
  CHECK(losses != expected); // it is another arithmetic
}

TEST_CASE("a state in bfloat16 holds float32 masters, and goes on bit for bit at any stage count") {
  actors::pipeline line(options_for(dtype::bfloat16, 2));
  for (std::uint64_t step = 1; step <= 3; ++step)
    line.train(sequences(step));
  const auto state = line.state();
  for (const auto& each : state->parameters)
    for (const auto& tensor : each.tensors)
      CHECK(tensor.type() == dtype::float32);
  const auto expected = line.train(sequences(4));
  const auto bytes = stress::bytes_of(*line.state());
  for (const int stages : {1, 2, 4}) {
    CAPTURE(stages);
    actors::pipeline other(options_for(dtype::bfloat16, stages));
    other.install(state);
    const auto report = other.train(sequences(4));
    CHECK(report.loss == expected.loss);
    CHECK(report.gradient_norm == expected.gradient_norm);
    CHECK(stress::bytes_of(*other.state()) == bytes);
  }
}

TEST_CASE("a state of float32 goes on in bfloat16, and back") {
  actors::pipeline wide(options_for(dtype::float32, 2));
  wide.train(sequences(1));
  const auto state = wide.state();
  actors::pipeline brief(options_for(dtype::bfloat16, 2));
  brief.install(state);
  CHECK(stress::bytes_of(*brief.state()) == stress::bytes_of(*state));
  const auto expected = wide.train(sequences(2)).loss;
  CHECK(brief.train(sequences(2)).loss == doctest::Approx(expected).epsilon(0.01));
  wide.install(brief.state());
  CHECK_NOTHROW(wide.train(sequences(3)));
}

TEST_CASE("a bfloat16 model sends bfloat16 between stages, sums in float32, predicts in float32") {
  auto network = std::make_shared<tests::recording_network>(3);
  auto options = options_for(dtype::bfloat16, 2);
  options.network = network;
  actors::pipeline line(std::move(options));
  const auto data = sequences(1);
  CHECK(line.predict(data).at(0).at(0).type() == dtype::float32);
  const auto report = line.train(data);
  const auto types_are = [&](net::payload kind, dtype wanted) {
    int sent = 0;
    for (const auto& each : network->of(kind))
      if (each.what.from < 2 && each.what.to < 2) { // not what the trainer sends or is sent
        CHECK(each.tensors.at(0) == std::pair(true, wanted));
        ++sent;
      }
    CHECK(sent > 0);
  };
  types_are(net::payload::activation, dtype::bfloat16);
  types_are(net::payload::gradient, dtype::bfloat16);
  types_are(net::payload::twin, dtype::float32);
  actors::pipeline wide(options_for(dtype::float32, 2));
  CHECK(report.stages.at(0).memory.peak_activation_bytes
        < 0.75 * double(wide.train(data).stages.at(0).memory.peak_activation_bytes));
}
