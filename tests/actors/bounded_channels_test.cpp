#include <doctest/doctest.h>

#include <future>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include "actors/pipeline.hpp"
#include "actors/plan/make_plan.hpp"
#include "actors/stress/trial_run.hpp"

// Fixed trials over rendezvous channels: what `sluice stress` once found, and stalls that other
// runtimes are known for. Each trains two steps, evaluates and predicts, against the serial run.

using namespace sluice;
using namespace std::chrono_literals;

namespace {

struct config : caf::actor_system_config {
  config() {
    actors::register_messages();
    set("caf.logger.console.verbosity", "quiet");
  }
};

plan::plan plan_of(const char* schedule, std::int32_t stages, std::int32_t micro_batches) {
  return plan::make_plan(schedule,
                         {.stages = stages, .micro_batches = micro_batches, .receive_slots = 1});
}

stress::trial trial_of(plan::plan of, std::uint64_t seed = 1) {
  auto made = stress::make_trial(seed, std::move(of));
  REQUIRE_MESSAGE(made.verdict.live, made.verdict.text);
  made.loopback = true;
  made.then_evaluates = true;
  return made;
}

/// Long: hundreds of threads at once, under a sanitizer, may leave one without a core for seconds.
constexpr auto deadline = 30s;

/// What is wrong with each of the trials, which run at the same time; all should be empty.
std::vector<std::string> complaints(const std::vector<stress::trial>& trials) {
  config options;
  caf::actor_system system(options);
  stress::reference_book references;
  std::vector<std::future<std::string>> running;
  for (const auto& each : trials)
    running.push_back(std::async(std::launch::async, [&] {
      return run_trial(std::make_shared<const stress::trial>(each), {system, references, deadline});
    }));
  std::vector<std::string> all;
  for (auto& each : running)
    all.push_back(each.get());
  return all;
}

void check_all(const std::vector<stress::trial>& trials) {
  for (const auto& wrong : complaints(trials))
    CHECK(wrong == "");
}

} // namespace

TEST_CASE("a plan with bounded receive slots runs to its end, and so does a prediction") {
  check_all({trial_of(plan_of("gpipe", 3, 6)), trial_of(plan_of("zb-h2", 2, 7))});
}

TEST_CASE("tied weights of both directions pass each other through a single receive slot") {
  auto made = trial_of(plan_of("dualpipe", 2, 5));
  made.model.of = stress::small_model::kind::gpt;
  check_all({made});
}

TEST_CASE("inputs come in the order in which the first lane takes them, targets in the last's") {
  auto first = plan_of("gpipe", 2, 4);
  for (auto& mine : first.by_rank)
    std::swap(mine.forwards[0], mine.forwards[2]);
  check_all({trial_of(first)});
}

TEST_CASE("what a rank sends to itself needs no receive slot") {
  auto made = plan_of("zb-v", 1, 2);
  auto& mine = made.by_rank[0];
  mine.forwards = {{.chunk = 0, .micro_batch = 0},
                   {.chunk = 0, .micro_batch = 1},
                   {.chunk = 1, .micro_batch = 1},
                   {.chunk = 1, .micro_batch = 0}};
  mine.credits = mine.warm_up = 4;
  check_all({trial_of(made)});
}

TEST_CASE("interleaved with P = 2, V = 2, M = 4 does not hang where a send ends only once its "
          "receive is posted [pytorch#172668]") {
  check_all({trial_of(plan_of("interleaved", 2, 4))});
}

TEST_CASE("two stages exchange a forward and a backward at the same time [ray#45594]") {
  check_all({trial_of(plan_of("1f1b", 4, 8)), trial_of(plan_of("zb-h1", 4, 8))});
}

TEST_CASE("a send buffer belongs to the channel until it completes [Megatron-LM#4047]") {
  auto made = trial_of(plan_of("1f1b", 4, 8));
  made.times.completion = 20ms;
  check_all({made});
}

TEST_CASE("delays of up to 50 ms a task change no byte, over 100 seeds [PiPPy#1088]") {
  std::vector<stress::trial> trials;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    trials.push_back(trial_of(plan_of("interleaved", 4, 8), seed));
    trials.back().times.task = 50ms;
    trials.back().then_evaluates = false;
  }
  check_all(trials);
}
