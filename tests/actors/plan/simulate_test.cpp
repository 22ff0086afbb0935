#include "actors/plan/simulate.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/plan/check.hpp"
#include "actors/plan/make_plan.hpp"

using namespace sluice::plan;

namespace {

constexpr std::int32_t ranks = 16;
constexpr std::int32_t batches = 64;
constexpr int seeds = 12;

struct noise_case {
  const char* name;
  jitter noise;
  double slowest = 1;
};
const noise_case noises[] = {{"lognormal 0.1", {.sigma = 0.1}},
                             {"lognormal 0.3", {.sigma = 0.3}},
                             {"a tenth of tasks 4x", {.slow_share = 0.1, .slow_factor = 4}},
                             {"one rank 1.3x", {}, 1.3}};

/// The mean span over the seeds.
double mean_span(const plan& of, const noise_case& in) {
  double sum = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    conditions under{.noise = in.noise, .keep_tasks = false};
    under.noise.seed = seed;
    under.slowness.assign(ranks, 1);
    under.slowness[seed % ranks] = in.slowest;
    sum += simulate(of, under).span;
  }
  return sum / seeds;
}

plan shipped(std::string_view name, std::optional<std::int32_t> credits = {}) {
  return make_plan(name, {.stages = ranks, .micro_batches = batches, .credits = credits});
}

plan frozen(const plan& of) {
  return freeze(of, simulate(of));
}

} // namespace

TEST_CASE("no task starts before its inputs are there, and a rank runs one at a time") {
  for (const auto& each : all_schedules()) {
    const auto made = make_plan(each.name, {.stages = 4, .micro_batches = 9});
    const topology feeds{made};
    const auto ran = simulate(made, {.between = {.latency = 0.3}, .noise = {.sigma = 0.5}});
    REQUIRE(ran.finished);
    std::map<std::tuple<task_kind, std::int32_t, std::int32_t>, double> ends;
    for (const auto& t : ran.tasks)
      ends[{t.what.kind, t.what.chunk, t.what.micro_batch}] = t.end;
    std::vector<double> free_at(4);
    for (const auto& t : ran.tasks) {
      CHECK(t.start >= free_at[t.rank] - 1e-6);
      free_at[t.rank] = t.end;
      const auto inputs = t.what.kind == task_kind::forward  ? feeds.sources(t.what.chunk)
                        : t.what.kind == task_kind::backward ? feeds.targets(t.what.chunk)
                                                             : std::span<const std::int32_t>{};
      for (const auto from : inputs) {
        const auto hop = made.chunks[from].rank == t.rank ? 0 : 0.3;
        CHECK(t.start >= ends.at({t.what.kind, from, t.what.micro_batch}) + hop - 1e-6);
      }
    }
  }
}

TEST_CASE("the bubble is the idle share of all ranks, ramps included") {
  const auto ran = simulate(make_plan("gpipe", {.stages = 4, .micro_batches = 4}));
  CHECK(ran.span == doctest::Approx(3 * (4 + 3)));
  CHECK(ran.work == doctest::Approx(4 * 4 * 3));
  CHECK(ran.bubble() == doctest::Approx(3. / 7));
  CHECK(ran.cost() == doctest::Approx(9));
}

TEST_CASE("thirds of a stage add up: what should happen at once does") {
  const plan_request wanted{.stages = 4, .micro_batches = 12, .chunks = 3};
  const auto thirds = simulate(make_plan("interleaved", wanted));
  const auto whole = simulate(make_plan("interleaved", wanted),
                              {.stage = {.forward = 3, .backward = 3, .weight = 3}});
  CHECK(thirds.span * 3 == doctest::Approx(whole.span).epsilon(1e-9));
}

TEST_CASE("messages take latency and bandwidth, and follow one another on a link") {
  const auto made = make_plan("gpipe", {.stages = 2, .micro_batches = 4, .forward_only = true});
  CHECK(simulate(made, {.between = {.latency = 5}}).span == doctest::Approx(4 + 5 + 1));
  // Two units on the wire for each of four outputs: the first is there at 3, the last at 9.
  const conditions narrow{.between = {.bandwidth = 50}, .message_bytes = 100};
  CHECK(simulate(made, narrow).span == doctest::Approx(1 + 4 * 2 + 1));
  auto blocking = narrow;
  blocking.between.overlaps_tasks = false; // the sender stands still: 4 x (1 + 2)
  CHECK(simulate(made, blocking).span == doctest::Approx(4 * 3 + 1));
  const conditions odd{.odd_links = {{.from_rank = 0, .to_rank = 1, .costs = {.latency = 7}}}};
  CHECK(simulate(made, odd).span == doctest::Approx(4 + 7 + 1));
}

TEST_CASE("the time of the host is hidden by dispatching ahead") {
  auto made = make_plan("gpipe", {.stages = 1, .micro_batches = 10});
  const conditions under{.dispatch_time = 0.25};
  CHECK(simulate(made, under).span == doctest::Approx(30 + 20 * 0.25 - 0.25));
  made.by_rank[0].look_ahead = 1;
  CHECK(simulate(made, under).span == doctest::Approx(30));
}

TEST_CASE("a stand-in is not dispatched ahead: nothing is decided before it must be") {
  for (const auto& each : all_schedules()) {
    CAPTURE(each.name);
    auto made = make_plan(each.name, {.stages = 8, .micro_batches = 32});
    const conditions noise{.noise = {.sigma = 0.3, .seed = 2}};
    const auto span = simulate(made, noise).span;
    for (auto& mine : made.by_rank)
      mine.look_ahead = 2;
    CHECK(simulate(made, noise).span == doctest::Approx(span));
  }
}

TEST_CASE("dispatching ahead helps every schedule, and a plan's number goes before the devices'") {
  for (const auto& each : all_schedules()) {
    CAPTURE(each.name);
    auto made = make_plan(each.name, {.stages = 8, .micro_batches = 32});
    conditions under{.between = {.latency = 0.01}, .dispatch_time = 0.02, .patience = 0.02};
    const auto behind = simulate(made, under).span;
    under.look_ahead = 1;
    CHECK(simulate(made, under).span < behind);
    for (auto& mine : made.by_rank)
      mine.look_ahead = 0;
    CHECK(simulate(made, under).span == doctest::Approx(behind));
  }
}

TEST_CASE("the same seed gives the same run, another one another") {
  const auto made = make_plan("zb-h1", {.stages = 4, .micro_batches = 8});
  const auto span = [&](std::uint64_t seed) {
    return simulate(made, {.noise = {.sigma = 0.3, .seed = seed}}).span;
  };
  CHECK(span(1) == span(1));
  CHECK(span(1) != span(2));
}

TEST_CASE("a slow rank sets the pace") {
  conditions under;
  under.slowness = {1, 1, 2, 1};
  const auto ran = simulate(make_plan("zb-h1", {.stages = 4, .micro_batches = 40}), under);
  CHECK(ran.by_rank[2].work == doctest::Approx(240));
  CHECK(ran.span >= 240);
  CHECK(ran.span < 252);
}

TEST_CASE("a frozen run replays itself") {
  for (const auto& each : all_schedules()) {
    const auto made = make_plan(each.name, {.stages = 4, .micro_batches = 10});
    CHECK(simulate(frozen(made)).span == doctest::Approx(simulate(made).span));
  }
}

TEST_CASE("under jitter the rule gains what message-driven dispatch is worth") {
  const auto static_1f1b = frozen(shipped("1f1b"));
  const auto zb_h1 = shipped("zb-h1");
  const auto roomy = shipped("zb-h1", 2 * ranks);
  CHECK(mean_span(zb_h1, noises[1]) <= 0.80 * mean_span(static_1f1b, noises[1]));
  CHECK(mean_span(zb_h1, noises[2]) <= 0.87 * mean_span(frozen(zb_h1), noises[2]));
  CHECK(mean_span(roomy, noises[1]) <= 0.95 * mean_span(frozen(roomy), noises[1]));
}

TEST_CASE("no plan that ships is more than 2% slower under jitter than its static order") {
  for (const auto& each : all_schedules())
    for (const auto& in : noises) {
      CAPTURE(each.name);
      CAPTURE(in.name);
      const auto made = shipped(each.name);
      CHECK(mean_span(made, in) <= 1.02 * mean_span(frozen(made), in));
    }
}

TEST_CASE("what does not work: a backward whenever one is ready is worse than a static order") {
  auto eager = shipped("1f1b");
  for (auto& mine : eager.by_rank) {
    mine.stand_in = true;
    mine.warm_up = 0;
  }
  CHECK(check(eager).live);
  CHECK(simulate(eager).span == doctest::Approx(simulate(shipped("1f1b")).span));
  CHECK(mean_span(eager, noises[1]) > 1.05 * mean_span(frozen(shipped("1f1b")), noises[1]));
}

TEST_CASE("what does not work: W at once after B makes ZB-H1 cost twice as much") {
  auto at_once = make_plan("zb-h1", {.stages = 8, .micro_batches = 32});
  for (std::int32_t r = 0; r < 8; ++r) {
    auto& order = at_once.by_rank[r].order;
    order.assign(8 - r, task_kind::forward);
    for (auto m = 8 - r; m < 32 + 8 - r; ++m) {
      order.push_back(task_kind::backward);
      order.push_back(task_kind::weight);
      if (m < 32)
        order.push_back(task_kind::forward);
    }
  }
  REQUIRE(check(at_once).live);
  CHECK(simulate(at_once).cost() >= 2 * 7);
}

TEST_CASE("a thousand ranks with a thousand micro-batches take seconds") {
  const auto made = make_plan("zb-h1", {.stages = 1000, .micro_batches = 1000});
  const auto ran = simulate(made, {.keep_tasks = false});
  CHECK(ran.finished);
  CHECK(ran.cost() == doctest::Approx(999));
}
