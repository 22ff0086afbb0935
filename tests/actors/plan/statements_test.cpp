#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "actors/plan/check.hpp"
#include "actors/plan/make_plan.hpp"
#include "actors/plan/simulate.hpp"

// Three statements on pipelines that are often repeated and wrong, each with the right figure.

using namespace sluice::plan;

namespace {

/// F and the whole backward take a slot each.
conditions a_slot_each(const plan& of) {
  return {.by_chunk = {of.chunks.size(), task_times{1, 0.5, 0.5, 0}}};
}

/// Activations of the rank that holds most, in whole stages.
double peak(const plan& of) {
  const auto ran = simulate(of);
  const auto most = std::ranges::max_element(ran.by_rank, {}, &rank_numbers::peak_activations);
  return most->peak_activations * of.share();
}

/// 1F1B as a loop writes it: so many forwards, then pairs, then the backwards that are left.
plan written_as_loop(std::int32_t ranks, std::int32_t micro_batches, bool forward_before_backward) {
  auto made = make_plan("1f1b", {.stages = ranks, .micro_batches = micro_batches});
  for (std::int32_t k = 0; k < ranks; ++k) {
    auto& mine = made.by_rank[static_cast<std::size_t>(k)];
    mine.credits = micro_batches;
    const auto warm_up = std::min(ranks - k, micro_batches);
    auto& order = mine.order;
    order.assign(static_cast<std::size_t>(warm_up), task_kind::forward);
    for (auto m = warm_up; m < micro_batches; ++m) {
      order.push_back(forward_before_backward ? task_kind::forward : task_kind::backward);
      order.push_back(forward_before_backward ? task_kind::backward : task_kind::forward);
    }
    order.insert(order.end(), static_cast<std::size_t>(warm_up), task_kind::backward);
  }
  return made;
}

} // namespace

TEST_CASE("not 15 slots: 1F1B with P = 4 and M = 6 takes 2(M + P - 1) = 18, F = B = 1 slot") {
  const auto made = make_plan("1f1b", {.stages = 4, .micro_batches = 6});
  CHECK(simulate(made, a_slot_each(made)).span == doctest::Approx(18));
  // No order does better: the first forward is at the last rank after P - 1 slots, its 2M tasks
  // follow, and the last gradient takes P - 1 slots back.
  for (const auto* schedule : {"gpipe", "1f1b"}) {
    const auto other = make_plan(schedule, {.stages = 4, .micro_batches = 6});
    CHECK(simulate(other, a_slot_each(other)).span >= 18 - 1e-9);
  }
}

TEST_CASE("15 slots break dependencies: some task would start before its input is there") {
  // In 15 slots the last rank would begin in slot 3 at the earliest and need 12 for its tasks; the
  // gradient of its last backward would reach rank 0 three slots after the picture ends.
  const auto made = make_plan("1f1b", {.stages = 4, .micro_batches = 6});
  const auto ran = simulate(made, a_slot_each(made));
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const auto& mine = ran.by_rank[static_cast<std::size_t>(rank)];
    CHECK(mine.first_start == doctest::Approx(rank));
    CHECK(mine.last_end == doctest::Approx(18 - rank));
  }
  CHECK(ran.by_rank[3].last_end == doctest::Approx(15));
}

TEST_CASE("not P - k: a loop of P - k warm-up forwards, then F before B, holds P - k + 1") {
  for (const std::int32_t ranks : {2, 4, 8}) {
    const auto forward_first = written_as_loop(ranks, 3 * ranks, true);
    const auto backward_first = written_as_loop(ranks, 3 * ranks, false);
    REQUIRE(check(forward_first).live);
    REQUIRE(check(backward_first).live);
    const auto one_more = simulate(forward_first);
    const auto exact = simulate(backward_first);
    for (std::int32_t k = 0; k < ranks; ++k) {
      CAPTURE(ranks);
      CAPTURE(k);
      CHECK(one_more.by_rank[static_cast<std::size_t>(k)].peak_activations == ranks - k + 1);
      CHECK(exact.by_rank[static_cast<std::size_t>(k)].peak_activations == ranks - k);
    }
  }
}

TEST_CASE("not P at least: V-Half holds about P/2 activations and V-Min about P/3") {
  for (const std::int32_t ranks : {4, 6, 8, 12, 16, 24}) {
    CAPTURE(ranks);
    const plan_request wanted{.stages = ranks, .micro_batches = 4 * ranks};
    const auto half = peak(make_plan("v-half", wanted));
    const auto least = peak(make_plan("v-min", wanted));
    CHECK(peak(make_plan("1f1b", wanted)) == doctest::Approx(ranks));
    CHECK(half < ranks);
    CHECK(half <= (ranks + 2) / 2);
    CHECK(least < ranks);
    CHECK(least <= (ranks + 4) / 3);
  }
}
