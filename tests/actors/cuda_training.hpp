#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "actors/pipeline.hpp"
#include "actors/stress/serial_run.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/nn/gpt.hpp"
#include "net/local.hpp"
#include "net/nccl.hpp"
#include "tests/emulation/fixtures.hpp"
#include "tests/support/batches.hpp"

// Small trainings on emulated GPUs, and what they leave behind.

namespace sluice::test {

inline constexpr std::int64_t vocabulary = 19;
inline constexpr std::int64_t length = 5;
inline constexpr int steps = 2;

inline std::vector<kernels::nn::module_ptr> small_gpt(dtype type) {
  return kernels::nn::make_gpt({.vocabulary = vocabulary,
                                .layers = 2,
                                .width = 8,
                                .heads = 2,
                                .length = length,
                                .dropout = 0.1},
                               type);
}

enum class placement : std::uint8_t { processor, gpus, mixed };

inline std::shared_ptr<kernels::device> device_of(placement where, std::int32_t rank) {
  if (where == placement::processor || (where == placement::mixed && rank % 2 == 1))
    return kernels::make_cpu_device();
  return std::make_shared<kernels::cuda::device>(rank);
}

/// What a few steps leave behind.
struct outcome {
  std::vector<double> losses;
  std::vector<double> norms;
  stress::byte_map bytes;
};

struct shape_of_run {
  const char* schedule;
  int stages;
  int micro_batches;
  dtype type = dtype::float32;
};

enum class channel : std::uint8_t { local, nccl };

inline std::shared_ptr<net::network> network_of(const shape_of_run& shape, placement where,
                                                channel which) {
  std::shared_ptr<net::network> local = net::make_local_network(shape.stages + 1);
  if (which == channel::local)
    return local;
  net::nccl_options options;
  options.others = local;
  for (std::int32_t rank = 0; rank < shape.stages; rank += where == placement::mixed ? 2 : 1)
    options.gpu_ranks.push_back(rank);
  return net::make_nccl_network(std::move(options));
}

inline actors::pipeline_options options_for(const shape_of_run& shape, placement where,
                                            channel which = channel::local) {
  return {.plan = plan::make_plan(shape.schedule,
                                  {.stages = shape.stages, .micro_batches = shape.micro_batches}),
          .layers = [type = shape.type] { return small_gpt(type); },
          .optimizer = stress::keeping_gradients(kernels::nn::make_adamw()),
          .learning_rate = [](std::uint64_t) { return 1e-3; },
          .clip = 0.5,
          .device = [where](std::int32_t rank) { return device_of(where, rank); },
          .network = network_of(shape, where, which)};
}

inline outcome train(const shape_of_run& shape, placement where, channel which = channel::local,
                     std::optional<int> look_ahead = {}) {
  auto options = options_for(shape, where, which);
  for (auto& rank : options.plan.by_rank)
    rank.look_ahead = look_ahead;
  actors::pipeline line(std::move(options));
  tests::token_batches batches(vocabulary, length, 0.3);
  const std::vector<std::int64_t> samples(static_cast<std::size_t>(shape.micro_batches), 2);
  outcome result;
  for (int step = 0; step < steps; ++step) {
    const auto report = line.train(batches.make(static_cast<std::uint64_t>(step) + 1, samples));
    result.losses.push_back(report.loss);
    result.norms.push_back(report.gradient_norm);
  }
  result.bytes = stress::bytes_of(*line.state());
  return result;
}

/// The rounding that is allowed: kernels add in another order than the processor, and their
/// exponential is another one.
inline constexpr double rounding = 2e-5;
inline constexpr double bfloat16_rounding =
  2e-3; ///< where a sum lies between two, each may be taken

inline void check_close(const outcome& got, const outcome& expected,
                        double rounding = test::rounding) {
  for (int step = 0; step < steps; ++step) {
    const auto at = static_cast<std::size_t>(step);
    CHECK(std::abs(got.losses[at] - expected.losses[at]) <= rounding * expected.losses[at]);
    CHECK(std::abs(got.norms[at] - expected.norms[at]) <= 10 * rounding * expected.norms[at]);
  }
}

inline void check_equal(const outcome& got, const outcome& expected) {
  CHECK(got.losses == expected.losses);
  CHECK(got.norms == expected.norms);
  CHECK(got.bytes == expected.bytes);
}

} // namespace sluice::test
