#include <doctest/doctest.h>

#include <cmath>

#include "actors/model_layout.hpp"
#include "actors/pipeline.hpp"
#include "kernels/nn/gpt.hpp"
#include "kernels/nn/mlp.hpp"
#include "tests/support/batches.hpp"
#include "actors/stress/serial_run.hpp"

// How a batch is cut must not matter: the divisor is the batch's count of valid targets, applied
// once, and every layer runs on exactly one stage.

using namespace sluice;
using kernels::dtype;

namespace {

constexpr std::int64_t vocabulary = 11;
constexpr std::int64_t length = 5;

struct outcome {
  double loss = 0;
  double norm = 0;
  stress::byte_map bytes;
};

/// One step in float64, in which the order of sums shows only in the last digits.
outcome run(const actors::batch& data) {
  actors::pipeline line(
    {.plan = plan::make_plan(
       "1f1b", {.stages = 2, .micro_batches = static_cast<std::int32_t>(data.size())}),
     .layers =
       [] {
         return kernels::nn::make_gpt(
           {.vocabulary = vocabulary, .layers = 1, .width = 6, .heads = 2, .length = length},
           dtype::float64);
       },
     .optimizer = stress::keeping_gradients(kernels::nn::make_sgd())});
  const auto report = line.train(data);
  return {report.loss, report.gradient_norm, stress::bytes_of(*line.state())};
}

void check_same(const outcome& one, const outcome& other) {
  CHECK(one.loss == doctest::Approx(other.loss).epsilon(1e-12));
  CHECK(one.norm == doctest::Approx(other.norm).epsilon(1e-12));
  for (const auto& [name, bytes] : one.bytes) {
    CAPTURE(name);
    const auto& others = other.bytes.at(name);
    REQUIRE(bytes.size() == others.size());
    for (std::size_t i = 0; i + sizeof(double) <= bytes.size(); i += sizeof(double)) {
      double left = 0;
      double right = 0;
      std::memcpy(&left, &bytes[i], sizeof left);
      std::memcpy(&right, &others[i], sizeof right);
      REQUIRE(std::abs(left - right) < 1e-11);
    }
  }
}

/// One micro-batch of all samples, cut into single samples.
actors::batch cut(const actors::batch_part& whole) {
  actors::batch parts;
  for (std::int64_t i = 0; i < whole.samples; ++i) {
    actors::batch_part part{{whole.inputs[0].slice(i, 1)}, {whole.targets[0].slice(i, 1)}, 1, 0};
    for (const auto target : std::as_const(part.targets[0]).span<std::int32_t>())
      part.valid_targets += target >= 0 ? 1 : 0;
    parts.push_back(std::move(part));
  }
  return parts;
}

/// Two samples with 1 and 3 valid targets, or 0 and 4.
actors::batch_part uneven(int first_valid, int second_valid) {
  tests::token_batches batches(vocabulary, length);
  auto whole = std::move(batches.make(3, std::array<std::int64_t, 1>{2}).front());
  auto targets = whole.targets[0].span<std::int32_t>();
  for (int t = 0; t < length; ++t) {
    if (t >= first_valid)
      targets[static_cast<std::size_t>(t)] = -1;
    if (t >= second_valid)
      targets[static_cast<std::size_t>(t + length)] = -1;
  }
  whole.valid_targets = first_valid + second_valid;
  return whole;
}

} // namespace

TEST_CASE("micro-batches of 1 and 3 valid targets give what one batch of 4 gives") {
  const auto whole = uneven(1, 3);
  check_same(run({whole}), run(cut(whole)));
}

TEST_CASE("a micro-batch without a valid target adds nothing and makes no NaN") {
  const auto whole = uneven(0, 4);
  const auto parts = cut(whole);
  const auto together = run(parts);
  CHECK(std::isfinite(together.loss));
  check_same(run({whole}), together);
}

TEST_CASE("a batch without any valid target has loss 0 and gradient 0") {
  const auto nothing = run({uneven(0, 0)});
  CHECK(nothing.loss == 0.0);
  CHECK(nothing.norm == 0.0);
}

TEST_CASE("three micro-batches are one update with the sum of three, scaled once") {
  tests::token_batches batches(vocabulary, length);
  const auto whole = std::move(batches.make(5, std::array<std::int64_t, 1>{3}).front());
  check_same(run({whole}), run(cut(whole)));
}

TEST_CASE("1 to 40 layers over 1 to 8 stages: each layer on exactly one, in order") {
  for (std::int64_t hidden = 0; hidden < 40; ++hidden)
    for (int stages = 1; stages <= 8; ++stages) {
      CAPTURE(hidden);
      CAPTURE(stages);
      const auto plan = plan::make_plan("1f1b", {.stages = stages, .micro_batches = 2});
      const actors::layout_request wanted{
        .plan = plan,
        .layers =
          [hidden] {
            auto layers = kernels::nn::make_mlp({.features = 3, .width = 3, .layers = 40});
            layers.erase(layers.begin(), layers.end() - 1 - hidden);
            return layers;
          },
        .cut = {},
        .layer_costs = {}};
      if (hidden + 1 < stages) {
        CHECK_THROWS_AS(actors::lay_out(wanted), std::invalid_argument);
        continue;
      }
      std::vector<std::string> names;
      for (const auto& part : actors::lay_out(wanted).part_layers) {
        CHECK_FALSE(part.empty());
        names.insert(names.end(), part.begin(), part.end());
      }
      std::vector<std::string> expected;
      for (const auto& layer : wanted.layers())
        expected.push_back(layer->name());
      CHECK(names == expected);
    }
}
