#include "actors/plan/check.hpp"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "actors/plan/make_plan.hpp"
#include "actors/plan/random_plan.hpp"

using namespace sluice::plan;

namespace {

/// Whether each wait of a cycle is on the next one's task, and the last on the first's.
bool closed(const std::vector<wait>& cycle) {
  for (std::size_t i = 0; i < cycle.size(); ++i)
    if (cycle[i].on != cycle[(i + 1) % cycle.size()].waiting)
      return false;
  return true;
}

} // namespace

TEST_CASE("the graph's verdict and the simulation agree on thousands of random plans") {
  std::mt19937_64 random{20240607};
  int dead = 0;
  constexpr int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    CAPTURE(trial);
    const auto made = random_plan(random);
    const auto checked = check(made);
    REQUIRE_MESSAGE(checked.shape_errors.empty(), checked.text);
    CAPTURE(made.schedule);
    CAPTURE(checked.text);
    dead += !checked.live;
    CHECK(checked.live == checked.cycle.empty());
    CHECK(closed(checked.cycle));
    for (int timing = 0; timing < 3; ++timing) {
      const auto ran = simulate(made, random_timing(made, random));
      REQUIRE(ran.finished == checked.live);
      for (std::int32_t r = 0; r < made.ranks; ++r)
        CHECK(ran.by_rank[r].peak_activations <= checked.most_activations[r]);
    }
  }
  CHECK(dead > trials / 5);
  CHECK(dead < trials * 4 / 5);
}

TEST_CASE("a refused plan has its cycle printed in words") {
  auto made = make_plan("1f1b", {.stages = 2, .micro_batches = 3});
  made.by_rank[0].credits = 1; // but it wants two forwards before its first backward
  const auto checked = check(made);
  CHECK_FALSE(checked.live);
  CHECK(checked.text
        == "1f1b: the plan cannot finish; these tasks wait for each other:\n"
           "  F1 of chunk 0 on rank 0 waits for the credit freed by B0 of chunk 0 on rank 0\n"
           "  B0 of chunk 0 on rank 0 comes in the order of its rank after F1 of chunk 0 on rank "
           "0\n");
  CHECK_FALSE(simulate(made).finished);
}

TEST_CASE("fewer credits by request lower the warm-up level, so that 1F1B stays live") {
  for (const std::int32_t credits : {1, 2, 3, 4, 9}) {
    const auto made = make_plan("1f1b", {.stages = 4, .micro_batches = 7, .credits = credits});
    CHECK(check(made).live);
    const auto ran = simulate(made);
    CHECK(ran.finished);
    CHECK(ran.by_rank[0].peak_activations <= credits);
  }
}

TEST_CASE("unordered lanes: if chunk 0 runs all its forwards first it takes all credits") {
  auto made = make_plan("interleaved", {.stages = 2, .micro_batches = 8, .chunks = 2});
  for (auto& mine : made.by_rank)
    std::stable_sort(mine.forwards.begin(), mine.forwards.end(),
                     [](const auto& a, const auto& b) { return a.chunk < b.chunk; });
  const auto checked = check(made);
  CHECK_FALSE(checked.live);
  CHECK_FALSE(simulate(made).finished);
  CHECK(checked.text.find("waits for the credit freed by") != std::string::npos);
}

TEST_CASE("one credit too few is found in each zero-bubble schedule that has none to spare") {
  for (const auto* name : {"v-half", "zb-v"}) {
    auto made = make_plan(name, {.stages = 3, .micro_batches = 8});
    for (auto& mine : made.by_rank)
      mine.credits = 1;
    CHECK_FALSE(check(made).live);
    CHECK_FALSE(simulate(made).finished);
  }
}

TEST_CASE("one receive slot an edge is enough for every schedule") { // H3
  for (const auto& each : all_schedules())
    for (const std::int32_t p : {2, 4})
      for (const std::int32_t m : {1, 2, 3, 4, 8}) {
        const auto made =
          make_plan(each.name, {.stages = p, .micro_batches = m, .receive_slots = 1});
        CAPTURE(each.name);
        CAPTURE(p);
        CAPTURE(m);
        const auto checked = check(made);
        CHECK_MESSAGE(checked.live, checked.text);
        CHECK(simulate(made).finished == checked.live);
      }
}

TEST_CASE("a skip edge with one slot finishes, or is refused with its cycle") { // H10
  auto straight = make_plan("1f1b", {.stages = 4, .micro_batches = 6, .receive_slots = 1});
  straight.skips = {{0, 3}};
  CHECK_FALSE(check(straight).live); // rank 0 wants 4 forwards before rank 3 can take the second
  straight.receive_slots = 4;
  CHECK(check(straight).live);
  CHECK(simulate(straight).finished);

  auto looped = make_plan("interleaved", {.stages = 2, .micro_batches = 6, .receive_slots = 1});
  looped.skips = {{0, 3}};
  const auto checked = check(looped);
  CHECK_FALSE(checked.live);
  CHECK(checked.text.find("waits for the receive slot emptied by") != std::string::npos);
  CHECK_FALSE(simulate(looped).finished);
}

TEST_CASE("what is no plan at all is told before anything is sorted") {
  const auto good = make_plan("zb-h1", {.stages = 2, .micro_batches = 2});
  CHECK(shape_errors(good).empty());
  const auto first_error = [](const plan& of) {
    const auto errors = check(of).shape_errors;
    return errors.empty() ? std::string{} : errors.front();
  };
  auto bad = good;
  SUBCASE("a micro-batch twice") {
    bad.by_rank[1].forwards[1].micro_batch = 0;
    CHECK(first_error(bad) == "F0 of chunk 0 on rank 1 is there twice");
  }
  SUBCASE("a micro-batch missing") {
    bad.by_rank[1].backwards.pop_back();
    CHECK(first_error(bad) == "B1 of chunk 0 on rank 1 is missing");
  }
  SUBCASE("a chunk of another rank") {
    bad.by_rank[1].forwards[1].chunk = 0;
    CHECK(first_error(bad) == "rank 1 cannot run F1 of chunk 0");
  }
  SUBCASE("a weight gradient of a whole backward") {
    bad.by_rank[0].backwards[0].split = false;
    CHECK(first_error(bad)
          == "W0 of chunk 0 on rank 0: a split backward and its weight gradient come together");
  }
  SUBCASE("a rank that is not there") {
    bad.chunks[1].rank = 7;
    CHECK(first_error(bad) == "chunk 1 is on rank 7, of 2");
  }
  SUBCASE("a route that misses a part") {
    bad.routes[0].pop_back();
    CHECK(first_error(bad) == "route 0 has 1 chunks for 2 parts");
  }
  SUBCASE("no credit") {
    bad.by_rank[0].credits = 0;
    CHECK(first_error(bad) == "rank 0 has 0 credits");
  }
  SUBCASE("an order that does not fit the lanes") {
    bad.by_rank[0].order = {task_kind::forward};
    CHECK(first_error(bad) == "rank 0: its order and its lanes have unequal numbers of F");
  }
  CHECK_FALSE(check(bad).live);
}

TEST_CASE("a thousand ranks with a thousand micro-batches are checked in a moment") {
  const auto made = make_plan("1f1b", {.stages = 1000, .micro_batches = 1000});
  CHECK(check(made).live);
}
