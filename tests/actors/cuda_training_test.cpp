// Training on emulated GPUs: the stages, plans and channels are the real ones, and so are the
// sources of the kernels. It shows order and arithmetic, not speed.

#include <doctest/doctest.h>

#include <cmath>

#include "actors/pipeline.hpp"
#include "actors/stress/serial_run.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/nn/gpt.hpp"
#include "net/local.hpp"
#include "net/nccl.hpp"
#include "tests/emulation/fixtures.hpp"
#include "tests/support/batches.hpp"

using namespace sluice;

namespace {

constexpr std::int64_t vocabulary = 19;
constexpr std::int64_t length = 5;
constexpr int steps = 2;

std::vector<kernels::nn::module_ptr> small_gpt() {
  return kernels::nn::make_gpt({.vocabulary = vocabulary,
                                .layers = 2,
                                .width = 8,
                                .heads = 2,
                                .length = length,
                                .dropout = 0.1});
}

enum class placement : std::uint8_t { processor, gpus, mixed };

std::shared_ptr<kernels::device> device_of(placement where, std::int32_t rank) {
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
};

enum class channel : std::uint8_t { local, nccl };

std::shared_ptr<net::network> network_of(const shape_of_run& shape, placement where,
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

actors::pipeline_options options_for(const shape_of_run& shape, placement where,
                                     channel which = channel::local) {
  return {.plan = plan::make_plan(shape.schedule,
                                  {.stages = shape.stages, .micro_batches = shape.micro_batches}),
          .layers = small_gpt,
          .optimizer = stress::keeping_gradients(kernels::nn::make_adamw()),
          .learning_rate = [](std::uint64_t) { return 1e-3; },
          .clip = 0.5,
          .device = [where](std::int32_t rank) { return device_of(where, rank); },
          .network = network_of(shape, where, which)};
}

outcome train(const shape_of_run& shape, placement where, channel which = channel::local) {
  actors::pipeline line(options_for(shape, where, which));
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
constexpr double rounding = 2e-5;

void check_close(const outcome& got, const outcome& expected) {
  for (int step = 0; step < steps; ++step) {
    const auto at = static_cast<std::size_t>(step);
    CHECK(std::abs(got.losses[at] - expected.losses[at]) <= rounding * expected.losses[at]);
    CHECK(std::abs(got.norms[at] - expected.norms[at]) <= 10 * rounding * expected.norms[at]);
  }
}

void check_equal(const outcome& got, const outcome& expected) {
  CHECK(got.losses == expected.losses);
  CHECK(got.norms == expected.norms);
  CHECK(got.bytes == expected.bytes);
}

} // namespace

TEST_CASE("training on emulated GPUs follows the processor's, and is itself the same, bit for bit, "
          "for every plan and emulated schedule") {
  const emulation::test::session run;
  const auto expected = train({"1f1b", 1, 4}, placement::processor);
  const auto one_gpu = train({"1f1b", 1, 4}, placement::gpus);
  check_close(one_gpu, expected);
  for (const auto& shape :
       {shape_of_run{"1f1b", 2, 4}, shape_of_run{"zb-h1", 2, 4}, shape_of_run{"1f1b", 4, 4}})
    for (const auto which :
         {emulation::schedule::eager, emulation::schedule::random, emulation::schedule::lazy}) {
      CAPTURE(shape.schedule);
      CAPTURE(shape.stages);
      CAPTURE(static_cast<int>(which));
      emulation::set_schedule(which, 11);
      check_equal(train(shape, placement::gpus), one_gpu);
    }
  CHECK(emulation::violations() == 0);
}

TEST_CASE("over NCCL's channels nothing changes, in any emulated schedule and device model") {
  const emulation::test::session run;
  const auto expected = train({"1f1b", 1, 4}, placement::gpus);
  std::uint64_t seed = 1;
  for (const auto& shape : {shape_of_run{"1f1b", 2, 4}, shape_of_run{"interleaved", 2, 4},
                            shape_of_run{"v-half", 2, 4}, shape_of_run{"zb-h1", 4, 4}})
    for (const auto model :
         {emulation::device_model::one_resident, emulation::device_model::independent})
      for (const auto which :
           {emulation::schedule::eager, emulation::schedule::random, emulation::schedule::lazy}) {
        CAPTURE(shape.schedule);
        CAPTURE(static_cast<int>(model));
        CAPTURE(static_cast<int>(which));
        emulation::set_device_model(model);
        emulation::set_schedule(which, seed++);
        check_equal(train(shape, placement::gpus, channel::nccl), expected);
      }
  CHECK(emulation::violations() == 0);
  CHECK(emulation::first_deadlock().empty());
}

TEST_CASE("DualPipe's two routes cross on every link, and NCCL carries both") {
  const emulation::test::session run;
  const auto expected = train({"dualpipe", 2, 4}, placement::gpus);
  for (const auto which : {emulation::schedule::random, emulation::schedule::lazy}) {
    emulation::set_schedule(which, 23);
    check_equal(train({"dualpipe", 2, 4}, placement::gpus, channel::nccl), expected);
  }
  CHECK(emulation::violations() == 0);
}

TEST_CASE("stages on GPUs and on the processor train together") {
  const emulation::test::session run(emulation::schedule::random, 5);
  const auto expected = train({"1f1b", 1, 4}, placement::processor);
  const auto mixed = train({"1f1b", 4, 4}, placement::mixed);
  check_close(mixed, expected);
  check_equal(train({"gpipe", 4, 4}, placement::mixed), mixed);
  check_equal(train({"1f1b", 4, 4}, placement::mixed, channel::nccl), mixed);
  CHECK(emulation::violations() == 0);
}

TEST_CASE("after the first step no stage allocates on its GPU") {
  const emulation::test::session run;
  actors::pipeline line(options_for({"1f1b", 2, 4}, placement::gpus, channel::nccl));
  tests::token_batches batches(vocabulary, length);
  const std::vector<std::int64_t> samples(4, 2);
  line.train(batches.make(1, samples));
  const auto before = emulation::device_allocations();
  for (std::uint64_t step = 2; step < 5; ++step)
    line.train(batches.make(step, samples));
  CHECK(emulation::device_allocations() == before);
}

TEST_CASE("a state goes from GPUs to the processor and on from there") {
  const emulation::test::session run;
  const auto line_on = [](placement where) {
    return actors::pipeline(options_for({"1f1b", 2, 2}, where));
  };
  tests::token_batches batches(vocabulary, length);
  const std::vector<std::int64_t> samples(2, 2);
  auto gpus = line_on(placement::gpus);
  gpus.train(batches.make(1, samples));
  const auto state = gpus.state();
  auto processor = line_on(placement::processor);
  processor.install(state);
  CHECK(stress::bytes_of(*processor.state()) == stress::bytes_of(*state));
  auto again = line_on(placement::gpus);
  again.install(processor.state());
  CHECK(again.train(batches.make(2, samples)).loss == gpus.train(batches.make(2, samples)).loss);
}
