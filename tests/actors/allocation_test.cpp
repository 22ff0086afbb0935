#include <doctest/doctest.h>

#include <array>
#include <memory>

#include "actors/pipeline.hpp"
#include "kernels/nn/gpt.hpp"
#include "tests/support/allocation_watch.hpp"
#include "tests/support/batches.hpp"

// After the first step nothing on the data path allocates: no tensor and no scratch, whatever the
// timing. What CAF allocates for its messages, and oneDNN for notes of a call, is counted apart:
// many, and all small.

using namespace sluice;

namespace {

constexpr std::int64_t vocabulary = 64;
constexpr std::int64_t length = 32;
constexpr int stages = 3;
constexpr std::size_t envelope_bytes = 4096; // Every activation here is larger.

/// Watches each stage's thread from its second step on.
struct stage_watch {
  std::array<test::allocation_counts, stages> counts{};
  std::array<int, stages> tasks{};

  void look(std::int32_t rank, int tasks_per_step) {
    thread_local std::unique_ptr<test::allocation_watch> watch;
    const auto at = static_cast<std::size_t>(rank);
    if (++tasks[at] == tasks_per_step + 1)
      watch = std::make_unique<test::allocation_watch>();
    if (watch != nullptr)
      counts[at] = watch->counts();
  }
};

} // namespace

TEST_CASE("after the first step no stage allocates a tensor or scratch") {
  if (!test::allocation_watch::works()) {
    MESSAGE("NOT TESTED: a sanitizer has the allocator");
    return;
  }
  constexpr int micro_batches = 8;
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1", "interleaved", "zb-v"}) {
    CAPTURE(schedule);
    const auto plan = plan::make_plan(schedule, {.stages = stages, .micro_batches = micro_batches});
    auto watch = std::make_shared<stage_watch>();
    std::array<int, stages> tasks_per_step{};
    for (std::size_t rank = 0; rank < stages; ++rank)
      tasks_per_step[rank] = static_cast<int>(plan.by_rank[rank].tasks());
    actors::pipeline line({.plan = plan,
                           .layers =
                             [] {
                               return kernels::nn::make_gpt({.vocabulary = vocabulary,
                                                             .layers = 3,
                                                             .width = 64,
                                                             .heads = 4,
                                                             .length = length,
                                                             .dropout = 0.1});
                             },
                           .extra_time =
                             [watch, tasks_per_step](std::int32_t rank, const plan::task&, bool) {
                               watch->look(rank, tasks_per_step[static_cast<std::size_t>(rank)]);
                               return std::chrono::nanoseconds{0};
                             }});
    tests::token_batches batches(vocabulary, length);
    const std::vector<std::int64_t> samples(micro_batches, 2);
    auto report = line.train(batches.make(1, samples));
    const auto first = report.stages;
    for (std::uint64_t step = 2; step <= 5; ++step)
      report = line.train(batches.make(step, samples));
    for (std::size_t rank = 0; rank < stages; ++rank) {
      CAPTURE(rank);
      const auto& counts = watch->counts[rank];
      CHECK(watch->tasks[rank] == 5 * tasks_per_step[rank]);
      CHECK(counts.largest_bytes < envelope_bytes);
      CHECK(report.stages[rank].memory.device_allocations == first[rank].memory.device_allocations);
      MESSAGE(schedule << ", stage " << rank << ": " << counts.ours
                       << " allocations for messages and " << counts.products
                       << " inside the product library in 4 steps of " << tasks_per_step[rank]
                       << " tasks, the largest of " << counts.largest_bytes << " bytes");
    }
  }
}
