#pragma once

#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "actors/pipeline.hpp"
#include "actors/stress/serial_run.hpp"
#include "kernels/nn/init.hpp"

// A model of a test's own under every schedule and cut: the bytes are those of one stage.

namespace sluice::tests {

using layer_list = std::vector<kernels::nn::module_ptr>;

inline constexpr std::int64_t width = 5;

/// Random rows; micro-batches have 2, 1, 3, 2, ... of them.
inline batch rows(int micro_batches, std::size_t inputs = 1, std::uint64_t seed = 1) {
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

inline pipeline_options options_of(std::string_view schedule, int stages, int micro_batches,
                                   std::function<layer_list()> layers, nn::model_values values) {
  return {.plan = plan::make_plan(schedule, {.stages = stages, .micro_batches = micro_batches}),
          .layers = std::move(layers),
          .values = std::move(values),
          .optimizer = stress::keeping_gradients(nn::make_sgd()),
          .learning_rate = [](std::uint64_t) { return 0.01; }};
}

/// Three steps and an evaluation.
inline outcome train(pipeline_options options, const batch& data) {
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
inline void check_all_cuts(const std::function<layer_list()>& layers,
                           const nn::model_values& values, const batch& data) {
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

inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return {};
}

inline bool says(const std::string& text, std::string_view what) {
  return text.find(what) != std::string::npos;
}

inline const nn::model_values x_and_y{.inputs = {"x"}, .targets = {"y"}};

} // namespace sluice::tests
