#include "actors/plan/make_plan.hpp"

#include <string>

#include <doctest/doctest.h>

#include "actors/plan/check.hpp"
#include "actors/plan/simulate.hpp"

using namespace sluice::plan;

TEST_CASE("1F1B with equal stages takes 2(M + P - 1) slots, not the 15 of some drawings") {
  const auto made = make_plan("1f1b", {.stages = 4, .micro_batches = 6});
  REQUIRE(check(made).live);
  const auto ran = simulate(made, {.stage = {.forward = 1, .backward = 0.5, .weight = 0.5}});
  REQUIRE(ran.finished);
  CHECK(ran.span == doctest::Approx(18));
}
