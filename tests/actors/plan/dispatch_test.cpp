#include "actors/plan/dispatch.hpp"

#include <doctest/doctest.h>

using namespace sluice::plan;

TEST_CASE("an idle rank below its warm-up level starts a forward") {
  rank_plan mine{.forwards = {{0, 0}, {0, 1}}, .backwards = {{0, 0}, {0, 1}}, .warm_up = 1};
  rank_progress now{.forward_here = true};
  CHECK(dispatch(mine, now) == task_kind::forward);
}
