#include <doctest/doctest.h>

#include "actors/stress/campaign.hpp"

using namespace sluice;

TEST_CASE("20,000 trials finish, exactly, within memory and in lane order, or are rightly "
          "refused") {
  const auto report = stress::run({.trials = 20'000, .seed = 1});
  for (const auto& each : report.failures)
    FAIL_CHECK(each.what << "\n  " << each.trial << "\n  " << each.replay);
  CHECK(report.trials == 20'000);
  MESSAGE(report.trials_per_second(), " trials a second, ", report.refused, " refused");
}
