#include <doctest/doctest.h>

#include <atomic>
#include <random>

#include "actors/pipeline.hpp"
#include "actors/stress/serial_run.hpp"
#include "kernels/nn/gpt.hpp"
#include "net/loopback.hpp"
#include "tests/support/batches.hpp"

// The promise of the whole project: every schedule, stage count and timing gives, bit for bit, the
// gradients and weights of the micro-batches run one after another on one device.

using namespace sluice;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t vocabulary = 19;
constexpr std::int64_t length = 7;
constexpr double clip = 0.5; // Small enough to be active.

/// 2 + 2 * layers modules: an embedding, two of each layer, a head.
std::vector<kernels::nn::module_ptr> small_gpt(std::int64_t layers, dtype type) {
  return kernels::nn::make_gpt({.vocabulary = vocabulary,
                                .layers = layers,
                                .width = 12,
                                .heads = 3,
                                .length = length,
                                .dropout = 0.1},
                               type);
}

std::shared_ptr<const kernels::nn::optimizer> test_optimizer() {
  return stress::keeping_gradients(kernels::nn::make_adamw());
}

std::vector<std::int64_t> samples_of(int micro_batches) {
  // Unequal micro-batches: 2, 1, 3, 2, 1, 3, ...
  std::vector<std::int64_t> samples;
  for (int m = 0; m < micro_batches; ++m)
    samples.push_back(std::array<std::int64_t, 3>{2, 1, 3}[static_cast<std::size_t>(m % 3)]);
  return samples;
}

/// What three steps of the serial run leave behind.
struct reference {
  stress::byte_map bytes;
  std::vector<double> losses;
  std::vector<double> norms;
};

constexpr int steps = 3;

constexpr std::int64_t few_layers = 3;

struct model {
  std::int64_t layers = few_layers;
  dtype type = dtype::float32;
  auto operator<=>(const model&) const = default;
};

/// Made once for each model and way in which the micro-batches are summed: all in one row, or by
/// route.
const reference& reference_for(const model& of, const std::vector<std::int32_t>& route_of) {
  static std::map<std::pair<model, std::vector<std::int32_t>>, reference> made;
  auto [found, fresh] = made.try_emplace({of, route_of});
  if (!fresh)
    return found->second;
  stress::serial_run serial({.layers = small_gpt(of.layers, of.type),
                             .optimizer = test_optimizer(),
                             .clip = clip,
                             .route_of = route_of});
  tests::token_batches batches(vocabulary, length, 0.3);
  for (int step = 0; step < steps; ++step) {
    const auto done = serial.step(batches.make(static_cast<std::uint64_t>(step) + 1,
                                               samples_of(static_cast<int>(route_of.size()))));
    found->second.losses.push_back(done.loss);
    found->second.norms.push_back(done.gradient_norm);
  }
  found->second.bytes = serial.bytes();
  return found->second;
}

/// Delays drawn for each task or transfer from a seed; thread-safe, unlike a shared generator.
class random_delays {
public:
  random_delays(std::uint64_t seed, std::chrono::microseconds most) : seed_(seed), most_(most) {}

  std::chrono::microseconds next() {
    std::mt19937_64 random(seed_ + drawn_.fetch_add(1));
    return std::chrono::microseconds(
      static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(most_.count()) + 1)));
  }

private:
  std::uint64_t seed_;
  std::chrono::microseconds most_;
  std::atomic<std::uint64_t> drawn_{0};
};

actors::pipeline_options options_for(std::string_view schedule, const plan::plan_request& wanted,
                                     const model& of = {}) {
  return {.plan = plan::make_plan(schedule, wanted),
          .layers = [of] { return small_gpt(of.layers, of.type); },
          .optimizer = test_optimizer(),
          .learning_rate = [](std::uint64_t) { return 1e-3; },
          .clip = clip};
}

void check_equal(actors::pipeline_options options, const model& of = {}) {
  const int micro_batches = options.plan.micro_batches;
  const auto& expected = reference_for(of, options.plan.route_of);
  actors::pipeline line(std::move(options));
  tests::token_batches batches(vocabulary, length, 0.3);
  for (int step = 0; step < steps; ++step) {
    const auto report =
      line.train(batches.make(static_cast<std::uint64_t>(step) + 1, samples_of(micro_batches)));
    REQUIRE(report.loss == expected.losses[static_cast<std::size_t>(step)]);
    REQUIRE(report.gradient_norm == expected.norms[static_cast<std::size_t>(step)]);
    REQUIRE(report.gradient_scale < 1.0);
  }
  REQUIRE(stress::bytes_of(*line.state()) == expected.bytes);
}

} // namespace

TEST_CASE("GPipe and 1F1B give the bytes of the serial run for every stage and micro-batch count") {
  model of;
  SUBCASE("in float32") {}
  SUBCASE("in bfloat16, masters included") {
    of.type = dtype::bfloat16;
  }
  for (const char* schedule : {"gpipe", "1f1b"})
    for (int stages = 1; stages <= 4; ++stages)
      for (const int micro_batches : {1, 2, 3, 4, 7, 8})
        for (const bool recompute : {false, true}) {
          CAPTURE(schedule);
          CAPTURE(stages);
          CAPTURE(micro_batches);
          CAPTURE(recompute);
          auto options =
            options_for(schedule, {.stages = stages, .micro_batches = micro_batches}, of);
          options.recompute = recompute;
          check_equal(std::move(options), of);
        }
}

TEST_CASE(
  "every synchronous schedule gives the bytes of the serial run, by route where it has two") {
  model of;
  SUBCASE("in float32") {}
  SUBCASE("in bfloat16, masters included") {
    of.type = dtype::bfloat16;
  }
  for (const auto& schedule : plan::all_schedules())
    for (const int stages : {1, 2, 3, 4})
      for (const int micro_batches : {1, 2, 3, 5, 8}) {
        CAPTURE(schedule.name);
        CAPTURE(stages);
        CAPTURE(micro_batches);
        actors::pipeline_options options;
        try {
          options =
            options_for(schedule.name, {.stages = stages, .micro_batches = micro_batches}, of);
        } catch (const plan::plan_error&) {
          continue; // This schedule has no such shape.
        }
        if (options.plan.asynchronous)
          continue; // Its updates come within the step.
        check_equal(std::move(options), of);
      }
}

TEST_CASE("three chunks a rank give the bytes of the serial run") {
  constexpr model of{.layers = 5}; // 12 modules, for 4 stages of 3 chunks.
  for (const char* schedule : {"interleaved", "interleaved-zb"})
    for (const int stages : {2, 3, 4})
      for (const int micro_batches : {1, 2, 3, 5, 8}) {
        CAPTURE(schedule);
        CAPTURE(stages);
        CAPTURE(micro_batches);
        check_equal(options_for(schedule,
                                {.stages = stages, .micro_batches = micro_batches, .chunks = 3},
                                of),
                    of);
      }
}

TEST_CASE("random task times and a rendezvous transport change no byte, over 20 seeds") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const char* schedule = seed % 2 == 0 ? "gpipe" : "1f1b";
    const int stages = 2 + static_cast<int>(seed % 3);
    const int micro_batches = std::array{1, 3, 4, 7, 8}[seed % 5];
    auto options = options_for(schedule, {.stages = stages, .micro_batches = micro_batches});
    options.recompute = seed % 4 < 2;
    auto tasks = std::make_shared<random_delays>(seed, 2ms);
    auto transfers = std::make_shared<random_delays>(seed + 1000, 1ms);
    options.extra_time = [tasks](std::int32_t, const plan::task&, bool) { return tasks->next(); };
    options.network = net::make_loopback_network(
      stages + 1, {.slots = 1,
                   .latency = [transfers](const net::transfer&) { return transfers->next(); },
                   .completion = [transfers](const net::transfer&) { return transfers->next(); },
                   .poison = true});
    check_equal(std::move(options));
  }
}
