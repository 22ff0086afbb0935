#include "actors/plan/dispatch.hpp"

#include <doctest/doctest.h>

using namespace sluice::plan;
using enum task_kind;

namespace {

/// Three micro-batches of one chunk, split; two of them make the warm-up.
rank_plan three() {
  return {.forwards = {{0, 0}, {0, 1}, {0, 2}},
          .backwards = {{0, 0, 0, true}, {0, 1, 0, true}, {0, 2, 0, true}},
          .weights = {{0, 0}, {0, 1}, {0, 2}},
          .warm_up = 2,
          .credits = 2};
}

} // namespace

TEST_CASE("an idle rank below its warm-up level starts a forward whose input is here") {
  CHECK(dispatch(three(), {.forward_here = true}) == forward);
  CHECK(
    dispatch(
      three(),
      {.forwards_started = 1, .activations_held = 1, .forward_here = true, .backward_here = true})
    == forward);
}

TEST_CASE("at its warm-up level it starts a backward") {
  CHECK(
    dispatch(
      three(),
      {.forwards_started = 2, .activations_held = 1, .forward_here = true, .backward_here = true})
    == backward);
}

TEST_CASE("with all forwards started it starts backwards") {
  auto mine = three();
  mine.warm_up = 3;
  CHECK(
    dispatch(
      mine,
      {.forwards_started = 3, .backwards_started = 2, .activations_held = 2, .backward_here = true})
    == backward);
}

TEST_CASE("line 1: a wanted forward that lacks only a credit is preceded by the W that frees one") {
  rank_progress now{.forwards_started = 2,
                    .backwards_started = 1,
                    .activations_held = 2,
                    .forward_here = true,
                    .backward_here = true,
                    .weight_here = true};
  CHECK(dispatch(three(), now) == weight);
  SUBCASE("but not if its input is not here: the other lane goes") {
    now.forward_here = false;
    CHECK(dispatch(three(), now) == backward);
  }
  SUBCASE("nor if no W waits: the other lane goes") {
    now.weight_here = false;
    CHECK(dispatch(three(), now) == backward);
  }
  SUBCASE("nor if a credit is free") {
    now.activations_held = 1;
    CHECK(dispatch(three(), now) == forward);
  }
}

TEST_CASE("line 3: the other lane stands in when the wanted one cannot go") {
  const rank_progress late_input{
    .forwards_started = 1, .activations_held = 1, .backward_here = true};
  const rank_progress late_gradient{
    .forwards_started = 2, .activations_held = 1, .forward_here = true};
  CHECK(dispatch(three(), late_input) == backward);
  CHECK(dispatch(three(), late_gradient) == forward);
  SUBCASE("a forward only with a credit") {
    auto without = late_gradient;
    without.activations_held = 2;
    CHECK(dispatch(three(), without) == std::nullopt);
  }
  SUBCASE("not where the plan says so") {
    auto mine = three();
    mine.stand_in = false;
    CHECK(dispatch(mine, late_input) == std::nullopt);
    CHECK(dispatch(mine, late_gradient) == std::nullopt);
  }
  SUBCASE("backwards only as far as the plan says") {
    auto mine = three();
    mine.backward_lead = 1;
    CHECK(dispatch(mine, late_input) == backward);
    mine.backward_lead = 0;
    CHECK(dispatch(mine, late_input) == std::nullopt);
  }
}

TEST_CASE("line 4: when neither lane can go, the oldest W does") {
  CHECK(
    dispatch(
      three(),
      {.forwards_started = 2, .backwards_started = 1, .activations_held = 2, .weight_here = true})
    == weight);
}

TEST_CASE("line 5: with nothing here it waits for a message") {
  CHECK(dispatch(three(), {}) == std::nullopt);
  CHECK(dispatch(rank_plan{}, {.forward_here = true, .backward_here = true}) == std::nullopt);
}

TEST_CASE("an update goes before everything") {
  auto mine = three();
  mine.updates = {{0, 0}};
  CHECK(
    dispatch(
      mine, {.forward_here = true, .backward_here = true, .weight_here = true, .update_here = true})
    == update);
}

TEST_CASE("a fixed order leaves no choice") {
  auto mine = three();
  mine.order = {forward, backward, weight, forward, backward, weight, forward, backward, weight};
  CHECK(dispatch(mine, {.forward_here = true}) == forward);
  rank_progress now{.forwards_started = 1, .activations_held = 1, .forward_here = true};
  CHECK(dispatch(mine, now) == std::nullopt);
  now.backward_here = true;
  CHECK(dispatch(mine, now) == backward);
}

TEST_CASE("a forward in a plan without backwards needs its input and nothing else") {
  const rank_plan mine{.forwards = {{0, 0}, {0, 1}, {0, 2}}};
  CHECK(dispatch(mine, {.forwards_started = 2, .forward_here = true}) == forward);
  CHECK(dispatch(mine, {.forwards_started = 3, .forward_here = true}) == std::nullopt);
  CHECK(all_started(mine, {.forwards_started = 3}));
}
