#include "actors/plan/partition.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <doctest/doctest.h>

#include "actors/plan/make_plan.hpp"

using namespace sluice::plan;

namespace {

double worst(std::span<const double> costs, const std::vector<layer_range>& ranges) {
  double found = 0;
  for (const auto& r : ranges)
    found =
      std::max(found, std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(r.begin),
                                      costs.begin() + static_cast<std::ptrdiff_t>(r.end), 0.));
  return found;
}

double least_worst(std::span<const double> costs, int parts) {
  if (parts == 1)
    return std::accumulate(costs.begin(), costs.end(), 0.);
  double best = INFINITY;
  double head = 0;
  for (std::size_t n = 1; n + parts - 1 <= costs.size(); ++n) {
    head += costs[n - 1];
    best = std::min(best, std::max(head, least_worst(costs.subspan(n), parts - 1)));
  }
  return best;
}

} // namespace

TEST_CASE("a partition has each of 1 to 40 layers exactly once, in 1 to 8 parts") {
  for (std::size_t layers = 1; layers <= 40; ++layers)
    for (int parts = 1; parts <= 8; ++parts) {
      const std::vector<double> costs(layers, 1);
      if (layers < static_cast<std::size_t>(parts)) {
        CHECK_THROWS_AS(partition(costs, parts), plan_error);
        continue;
      }
      const auto ranges = partition(costs, parts);
      REQUIRE(ranges.size() == static_cast<std::size_t>(parts));
      std::size_t next = 0;
      for (const auto& r : ranges) {
        CHECK(r.begin == next);
        CHECK(r.size() >= layers / parts);
        CHECK(r.size() <= (layers + parts - 1) / parts);
        next = r.end;
      }
      CHECK(next == layers);
    }
}

TEST_CASE("the costliest part of a partition is as cheap as trying all cuts finds") {
  std::mt19937 random{7};
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> costs(1 + random() % 11);
    for (auto& c : costs)
      c = random() % 5 == 0 ? 0 : static_cast<double>(random() % 1000) / 10;
    const int parts = 1 + static_cast<int>(random() % costs.size());
    CHECK(worst(costs, partition(costs, parts)) == doctest::Approx(least_worst(costs, parts)));
  }
}

TEST_CASE("a partition gives a heavy head a part of its own") {
  const std::vector<double> costs{1, 1, 1, 1, 4};
  CHECK(partition(costs, 2) == std::vector<layer_range>{{0, 4}, {4, 5}});
}

TEST_CASE("a partition that cannot be says why") {
  const std::vector<double> three{1, 2, 3};
  CHECK_THROWS_WITH(partition(three, 4),
                    "3 layers cannot be cut into 4 parts: each needs at least one");
  CHECK_THROWS_WITH(partition(three, 0), "layers can be cut into 1 part or more, not 0");
  CHECK_THROWS_WITH(partition(std::vector<double>{1, -2}, 1), "layer 1 costs -2");
}
