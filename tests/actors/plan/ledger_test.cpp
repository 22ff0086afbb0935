#include "actors/plan/ledger.hpp"

#include <stdexcept>

#include <doctest/doctest.h>

#include "actors/plan/make_plan.hpp"

using namespace sluice::plan;
using enum task_kind;

TEST_CASE("a ledger turns messages into tasks: the last stage of 1F1B") {
  const auto of = make_plan("1f1b", {.stages = 2, .micro_batches = 2});
  const topology feeds{of};
  ledger mine{of, feeds, 1};
  CHECK_FALSE(mine.next());
  mine.arrived(forward, 1, 0);
  mine.arrived(forward, 1, 1);
  REQUIRE(mine.next() == task{forward, 1, 0});
  mine.start({forward, 1, 0});
  CHECK_FALSE(mine.next()); // one credit, and the backward needs the forward's end
  mine.finish({forward, 1, 0});
  REQUIRE(mine.next() == task{backward, 1, 0});
  mine.start({backward, 1, 0});
  mine.finish({backward, 1, 0});
  REQUIRE(mine.next() == task{forward, 1, 1});
  mine.start({forward, 1, 1});
  mine.finish({forward, 1, 1});
  mine.start({backward, 1, 1});
  CHECK(mine.all_started());
  CHECK(mine.peak_activations() == 1);
  mine.finish({backward, 1, 1});
  mine.reset();
  CHECK_FALSE(mine.next());
  CHECK_FALSE(mine.all_started());
}

TEST_CASE("a ledger refuses what cannot happen in a correct run") {
  const auto of = make_plan("1f1b", {.stages = 2, .micro_batches = 2});
  const topology feeds{of};
  ledger mine{of, feeds, 1};
  mine.arrived(forward, 1, 0);
  CHECK_THROWS_WITH_AS(mine.arrived(forward, 1, 0),
                       "rank 1: F of micro-batch 0 in chunk 1: one input too many has arrived",
                       std::logic_error);
  CHECK_THROWS_AS(mine.arrived(forward, 0, 1), std::logic_error);  // of another rank
  CHECK_THROWS_AS(mine.arrived(forward, 1, 2), std::logic_error);  // of no step
  CHECK_THROWS_AS(mine.arrived(backward, 1, 0), std::logic_error); // the last stage has the loss
  CHECK_THROWS_AS(mine.start({forward, 1, 1}), std::logic_error);  // out of order
  CHECK_THROWS_AS(mine.finish({backward, 1, 0}), std::logic_error);
  CHECK_THROWS_AS(mine.slot_returned(backward, 1, 0), std::logic_error);
}

TEST_CASE("a bounded receive slot holds a sender back until it is emptied") {
  const auto of = make_plan("gpipe", {.stages = 2, .micro_batches = 3, .receive_slots = 1});
  const topology feeds{of};
  ledger mine{of, feeds, 0};
  mine.start({forward, 0, 0});
  mine.finish({forward, 0, 0});
  CHECK_FALSE(mine.next());
  mine.slot_returned(forward, 0, 1);
  CHECK(mine.next() == task{forward, 0, 1});
}

TEST_CASE("a forward waits for the version of its weights") {
  const auto of = make_plan("pipedream", {.stages = 1, .micro_batches = 2});
  const topology feeds{of};
  ledger mine{of, feeds, 0};
  for (const auto& step : {task{forward, 0, 0}, task{backward, 0, 0}}) {
    REQUIRE(mine.next() == step);
    mine.start(step);
    mine.finish(step);
  }
  REQUIRE(mine.next() == task{update, 0, 0});
  mine.start({update, 0, 0});
  CHECK_FALSE(mine.next());
  mine.finish({update, 0, 0});
  CHECK(mine.next() == task{forward, 0, 1});
}
