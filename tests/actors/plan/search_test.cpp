#include "actors/plan/search.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "actors/plan/check.hpp"
#include "actors/plan/credits.hpp"
#include "actors/plan/make_plan.hpp"

using namespace sluice::plan;

namespace {

constexpr double mib = 1 << 20;

search_request eight_layers(std::int32_t devices, double memory_bytes) {
  search_request wanted{.batch = 16};
  wanted.layers.assign(8, {.forward = 1,
                           .backward = 1,
                           .weight = 1,
                           .activation_bytes = 64 * mib,
                           .output_bytes = mib,
                           .parameter_bytes = 16 * mib});
  wanted.devices.assign(devices, {.memory_bytes = memory_bytes});
  return wanted;
}

} // namespace

TEST_CASE("with memory to spare the search finds a plan that hardly idles") {
  const auto wanted = eight_layers(4, 1024 * 1024 * mib);
  const auto found = search(wanted);
  REQUIRE_FALSE(found.fitting.empty());
  const auto& best = found.fitting.front();
  CHECK(best.made.ranks == 4);
  CHECK(best.step <= 16 * 3 * 8 / 4. * 1.05);
  CHECK(check(best.made).live);
  CHECK(found.with_more.empty());
  CHECK(std::is_sorted(found.fitting.begin(), found.fitting.end(),
                       [](const auto& a, const auto& b) { return a.step < b.step; }));
}

TEST_CASE("every proposal fits, and says what it needs") {
  for (const double memory : {300., 500., 900., 2000.}) {
    CAPTURE(memory);
    const auto wanted = eight_layers(4, memory * mib);
    const auto found = search(wanted);
    REQUIRE_FALSE(found.fitting.empty());
    for (const auto& each : found.fitting) {
      CAPTURE(each.text());
      for (const auto bytes : each.peak_bytes)
        CHECK(bytes <= memory * mib);
    }
  }
}

TEST_CASE("less memory never makes a shorter step, and more is said to buy one") {
  const auto rich = search(eight_layers(4, 4000 * mib));
  const auto poor = search(eight_layers(4, 300 * mib));
  CHECK(poor.fitting.front().step > rich.fitting.front().step);
  REQUIRE_FALSE(poor.with_more.empty());
  double fastest = poor.fitting.front().step;
  for (const auto& each : poor.with_more) {
    CHECK(each.memory_times > 1);
    CHECK(each.step < fastest);
    fastest = each.step;
  }
}

TEST_CASE("no memory is enough for nothing: what would be needed is told") {
  const auto found = search(eight_layers(2, 10 * mib));
  CHECK(found.fitting.empty());
  CHECK_FALSE(found.with_more.empty());
}

TEST_CASE("uneven layers and a slow device are cut so that all take about as long") {
  auto wanted = eight_layers(2, 1e15);
  wanted.devices[1].speed = 1. / 3;
  const auto found = propose(make_plan("1f1b", {.stages = 2, .micro_batches = 8}), wanted);
  CHECK(found.parts == std::vector<layer_range>{{0, 6}, {6, 8}});
  wanted.layers.back().forward = 10;
  const auto heavy = propose(make_plan("1f1b", {.stages = 2, .micro_batches = 8}), wanted);
  CHECK(heavy.parts[1].size() == 1);
}

TEST_CASE("a search can be held to schedules and stages") {
  auto wanted = eight_layers(4, 1e15);
  wanted.schedules = {"1f1b", "pipedream"};
  wanted.stages = 3;
  const auto found = search(wanted);
  REQUIRE(found.fitting.size() == 2);
  for (const auto& each : found.fitting)
    CHECK(each.made.ranks == 3);
}

TEST_CASE("a search without layers or devices says what is missing") {
  CHECK_THROWS_AS(search({}), plan_error);
  CHECK_THROWS_AS(search({.layers = {{}}}), plan_error);
}

TEST_CASE("credits fill the memory that is there, and no less than the schedule's own") {
  auto made = make_plan("zb-h1", {.stages = 4, .micro_batches = 16});
  const std::vector<double> bytes(4, 10.);
  fit_credits(made, bytes, std::vector<double>{45, 80, 1000, 79});
  CHECK(made.by_rank[0].credits == 4);
  CHECK(made.by_rank[1].credits == 8);
  CHECK(made.by_rank[2].credits == 16); // as many as there are micro-batches
  CHECK(made.by_rank[3].credits == 7);
  CHECK(check(made).live);
  CHECK_THROWS_WITH_AS(fit_credits(made, bytes, std::vector<double>(4, 39.)),
                       "zb-h1 holds 4 activations of 10 bytes on rank 0, but there is room for 39 "
                       "bytes",
                       plan_error);
}
