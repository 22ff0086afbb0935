// A consumer of the plan component alone: it needs neither CAF nor any numbers.

#include <cstdio>

#include <sluice/actors/plan/check.hpp>
#include <sluice/actors/plan/make_plan.hpp>
#include <sluice/version.hpp>

int main() {
  const auto plan = sluice::plan::make_plan("1f1b", {.stages = 4, .micro_batches = 8});
  const auto verdict = sluice::plan::check(plan);
  std::printf("sluice %s: %s is %s\n", SLUICE_VERSION_STRING, plan.schedule.c_str(),
              verdict.live ? "live" : "dead");
  return verdict.live ? 0 : 1;
}
