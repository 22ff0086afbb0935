#include "actors/plan/make_plan.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "actors/plan/check.hpp"
#include "actors/plan/draw.hpp"
#include "actors/plan/simulate.hpp"

using namespace sluice::plan;

namespace {

double peak(const plan& of, const simulation& ran) {
  std::int32_t most = 0;
  for (const auto& mine : ran.by_rank)
    most = std::max(most, mine.peak_activations);
  return most * of.share();
}

/// F and the whole backward (or each of F, B and W) take a slot, whatever the chunk.
conditions a_slot_each(const plan& of) {
  return {.by_chunk = {of.chunks.size(),
                       splits(of) ? task_times{1, 1, 1, 0} : task_times{1, 0.5, 0.5, 0}}};
}

std::string sources_of_schedules() {
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(SLUICE_SCHEDULES_DIR)) {
    std::ifstream file{entry.path()};
    all.append(std::istreambuf_iterator<char>{file}, {});
  }
  return all;
}

} // namespace

TEST_CASE("the picture in each schedule's file is the one that the simulator draws") {
  const auto sources = sources_of_schedules();
  for (const auto& each : all_schedules()) {
    CAPTURE(each.name);
    const bool eight = each.chunks == 2 || each.name == "pipedream-2bw";
    const auto made = make_plan(each.name, {.stages = 4, .micro_batches = eight ? 8 : 6});
    std::istringstream picture{draw_text(made, simulate(made, a_slot_each(made)))};
    std::string commented;
    for (std::string line; std::getline(picture, line);)
      commented += "///     " + line + "\n";
    CAPTURE(commented);
    CHECK(sources.find(commented) != std::string::npos);
  }
}

TEST_CASE("costs and peaks are the published ones, or better, with F = B = W = 1 and M = 4P") {
  struct row {
    const char* name;
    double (*cost)(double p);
    double (*peak)(double p);
  };
  const row rows[] = {
    {"gpipe", [](double p) { return 3 * (p - 1); }, [](double p) { return 4 * p; }},
    {"1f1b", [](double p) { return 3 * (p - 1); }, [](double p) { return p; }},
    {"zb-h1", [](double p) { return p - 1; }, [](double p) { return p; }},
    {"zb-h2", [](double) { return 0.; }, [](double p) { return 2 * p - 1; }},
    {"interleaved", [](double p) { return 1.5 * (p - 1); },
     [](double p) { return p + (p - 1) / 2; }},
    {"interleaved-zb", [](double) { return 0.; }, [](double p) { return p + (p - 1) / 2; }},
    {"v-half", [](double p) { return 1.5 * (p - 1); },
     [](double p) { return std::floor((p + 2) / 2); }},
    {"v-min", [](double p) { return 2 * (p - 1) - 0.5; },
     [](double p) { return std::floor((p + 4) / 3); }},
    {"zb-v", [](double) { return 0.; }, [](double p) { return p; }},
    {"dualpipe", [](double) { return 0.; }, [](double p) { return p + 1; }},
    // Published: (stages / 2 - 1)(F&B + B - 3W) = 2(P-1) halves without overlap.
    {"dualpipe-v", [](double p) { return (p - 1) / 2; }, [](double p) { return p; }},
    {"pipedream", [](double p) { return 3 * (p - 1); }, [](double p) { return p; }},
    {"pipedream-2bw", [](double p) { return 3 * (p - 1); }, [](double p) { return p; }},
  };
  CHECK(std::size(rows) == all_schedules().size());
  for (const auto& row : rows)
    for (const std::int32_t p : {4, 8, 16}) {
      CAPTURE(row.name);
      CAPTURE(p);
      const auto made = make_plan(row.name, {.stages = p, .micro_batches = 4 * p});
      REQUIRE(check(made).live);
      const auto ran = simulate(made);
      REQUIRE(ran.finished);
      CHECK(ran.cost() == doctest::Approx(row.cost(p)));
      if (std::string{row.name} == "v-min") // half an activation less at P = 8
        CHECK(peak(made, ran) <= row.peak(p));
      else
        CHECK(peak(made, ran) == doctest::Approx(row.peak(p)));
    }
}

TEST_CASE("costs hold for other numbers of chunks and ranks") {
  for (const std::int32_t p : {2, 3, 5, 6, 7, 12})
    for (const std::int32_t v : {1, 2, 3, 4}) {
      CAPTURE(p);
      CAPTURE(v);
      const plan_request wanted{.stages = p, .micro_batches = 4 * p, .chunks = v};
      CHECK(simulate(make_plan("interleaved", wanted)).cost() == doctest::Approx(3. * (p - 1) / v));
      CHECK(simulate(make_plan("interleaved-zb", wanted)).cost() <= (v == 1 ? p - 1 : 1e-9) + 1e-9);
    }
  for (const std::int32_t p : {1, 2, 3, 5, 6, 7, 9, 10, 12, 24}) {
    CAPTURE(p);
    const plan_request wanted{.stages = p, .micro_batches = 4 * p};
    const auto half = make_plan("v-half", wanted);
    const auto half_ran = simulate(half);
    CHECK(half_ran.cost() <= 1.5 * (p - 1) + 1e-9);
    CHECK(peak(half, half_ran) <= (p + 2) / 2);
    const auto least = make_plan("v-min", wanted);
    const auto least_ran = simulate(least);
    CHECK(least_ran.cost() <= 2 * (p - 1) - (p > 1 ? 0.5 : 0) + 1e-9);
    CHECK(peak(least, least_ran) <= (p + 4) / 3);
    CHECK(simulate(make_plan("zb-v", wanted)).cost() <= 1e-9);
  }
}

TEST_CASE("interleaved never costs more than plain 1F1B, whatever the number of micro-batches") {
  for (const std::int32_t p : {2, 3, 4, 8})
    for (const std::int32_t v : {2, 3, 4})
      for (std::int32_t m = 1; m <= 40; ++m) {
        CAPTURE(p);
        CAPTURE(v);
        CAPTURE(m);
        const plan_request wanted{.stages = p, .micro_batches = m};
        auto chunked = wanted;
        chunked.chunks = v;
        CHECK(simulate(make_plan("interleaved", chunked)).span
              <= simulate(make_plan("1f1b", wanted)).span + 1e-9);
      }
}

TEST_CASE("zb-h2 idles for nothing on 2 to 16 ranks") { // F68
  for (std::int32_t p = 2; p <= 16; ++p)
    for (const std::int32_t m : {2 * p - 1, 2 * p, 4 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(simulate(make_plan("zb-h2", {.stages = p, .micro_batches = m})).cost()
            == doctest::Approx(0));
    }
}

TEST_CASE("every schedule is live and runs to its end: P 1 to 16, V 1 to 4, M 1 to 40") { // H1, H2
  for (const auto& each : all_schedules())
    for (std::int32_t p = 1; p <= 16; ++p)
      for (std::int32_t v = 1; v <= 4; ++v)
        for (std::int32_t m = 1; m <= 40; m += m < 9 ? 1 : 5) {
          if ((!each.chunks_free && v != each.chunks) || (each.name == "dualpipe" && p % 2))
            continue;
          CAPTURE(each.name);
          CAPTURE(p);
          CAPTURE(v);
          CAPTURE(m);
          const auto made = make_plan(each.name, {.stages = p, .micro_batches = m, .chunks = v});
          const auto checked = check(made);
          REQUIRE_MESSAGE(checked.live, checked.text);
          const auto ran = simulate(made);
          REQUIRE(ran.finished);
          for (std::int32_t r = 0; r < p; ++r)
            CHECK(ran.by_rank[r].peak_activations <= checked.most_activations[r]);
          CHECK(simulate(forward_only(made)).finished);
        }
}

TEST_CASE("under 1F1B stage s runs P - s forwards before its first backward") {
  for (const std::int32_t p : {1, 2, 4, 8})
    for (const std::int32_t m : {1, 2, 3, 6, 40}) {
      const auto made = make_plan("1f1b", {.stages = p, .micro_batches = m});
      const auto ran = simulate(made);
      for (std::int32_t s = 0; s < p; ++s) {
        std::int32_t before = 0;
        for (const auto& each : ran.tasks) {
          if (each.rank == s && each.what.kind == task_kind::backward)
            break;
          before += each.rank == s;
        }
        CHECK(before == std::min(m, p - s));
        CHECK(ran.by_rank[s].peak_activations == std::min(m, p - s)); // F63: whatever M is
      }
    }
}

TEST_CASE("PipeDream keeps P - s versions of stage s, 2BW two") {
  for (const std::int32_t p : {1, 2, 4, 5})
    for (const std::int32_t m : {1, 2, 8, 21}) {
      CAPTURE(p);
      CAPTURE(m);
      const auto one = check(make_plan("pipedream", {.stages = p, .micro_batches = m}));
      const auto two = check(make_plan("pipedream-2bw", {.stages = p, .micro_batches = m}));
      for (std::int32_t s = 0; s < p; ++s) {
        CHECK(one.most_versions[s] <= p - s);
        CHECK(two.most_versions[s] <= 2);
      }
    }
}

TEST_CASE("the weight version of a micro-batch is a function of the plan, under any timing") {
  const auto made = make_plan("pipedream", {.stages = 3, .micro_batches = 12, .credits = 5});
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto ran = simulate(made, {.noise = {.sigma = 1, .seed = seed}});
    REQUIRE(ran.finished);
    std::vector<std::int32_t> updates(3);
    std::vector<std::size_t> forwards(3);
    for (const auto& each : ran.tasks) {
      updates[each.rank] += each.what.kind == task_kind::update;
      if (each.what.kind == task_kind::forward)
        CHECK(updates[each.rank]
              >= made.by_rank[each.rank].forwards[forwards[each.rank]++].version);
    }
  }
}

TEST_CASE("requests that cannot be say what would be right") {
  CHECK_THROWS_WITH_AS(make_plan("1f2b", {}),
                       "unknown schedule '1f2b'; there are gpipe, 1f1b, interleaved, zb-h1, zb-h2, "
                       "interleaved-zb, zb-v, v-half, v-min, dualpipe, dualpipe-v, pipedream, "
                       "pipedream-2bw, and file:PATH",
                       plan_error);
  CHECK_THROWS_WITH(make_plan("1f1b", {.stages = 0}),
                    "the number of stages must be at least 1, not 0");
  CHECK_THROWS_WITH(make_plan("1f1b", {.stages = 2, .micro_batches = 0}),
                    "the number of micro-batches must be at least 1, not 0");
  CHECK_THROWS_WITH(make_plan("1f1b", {.stages = 2, .micro_batches = 2, .chunks = 2}),
                    "1f1b has 1 chunk a rank, not 2");
  CHECK_THROWS_WITH(make_plan("1f1b", {.stages = 2, .micro_batches = 2, .credits = 0}),
                    "the number of credits must be at least 1, not 0");
  CHECK_THROWS_WITH(make_plan("dualpipe", {.stages = 3, .micro_batches = 2}),
                    "dualpipe runs from both ends: it needs an even number of stages, not 3");
}
