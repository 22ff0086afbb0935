#include "actors/plan/action_table.hpp"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "actors/plan/check.hpp"
#include "actors/plan/make_plan.hpp"
#include "actors/plan/simulate.hpp"

using namespace sluice::plan;

TEST_CASE("a table of actions says who runs what in which order") {
  const auto made = read_action_table("0F0,0F1,,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(made.ranks == 2);
  CHECK(made.micro_batches == 2);
  CHECK(made.parts == 2);
  CHECK_FALSE(splits(made));
  CHECK(check(made).live);
  CHECK(made.by_rank[0].credits == 2);
  CHECK(made.by_rank[1].credits == 1);
  const auto as_1f1b = simulate(make_plan("1f1b", {.stages = 2, .micro_batches = 2}));
  CHECK(simulate(made).span == doctest::Approx(as_1f1b.span));
}

TEST_CASE("split backwards are I and W; groups, transfers, quotes and carriage returns are read") {
  const auto made = read_action_table("0F0,0SEND_F0,(0F1;0I0)OVERLAP_F_B,0W0,\"0B1\"\r\n"
                                      "0UNSHARD\r\n");
  CHECK(made.ranks == 2); // the second without a stage of its own
  CHECK(made.by_rank[0].forwards.size() == 2);
  CHECK(made.by_rank[0].backwards[0].split);
  CHECK_FALSE(made.by_rank[0].backwards[1].split);
  CHECK(made.by_rank[0].weights == std::vector<lane_entry>{{0, 0}});
}

TEST_CASE("plans survive the way out and in again") {
  for (const auto& each : all_schedules()) {
    const auto made = make_plan(each.name, {.stages = 4, .micro_batches = 9});
    CAPTURE(each.name);
    if (each.name == "dualpipe" || each.name.starts_with("pipedream")) {
      CHECK_THROWS_AS(write_action_table(made), plan_error);
      continue;
    }
    const auto csv = write_action_table(made);
    const auto read = read_action_table(csv);
    CHECK(check(read).live);
    CHECK(simulate(read).span == doctest::Approx(simulate(made).span));
    CHECK(write_action_table(read) == csv);
  }
}

TEST_CASE("a table whose order cannot finish is read, and refused by the check") {
  const auto made = read_action_table("0B0,0F0\n1F0,1B0\n");
  CHECK_FALSE(check(made).live);
  CHECK(check(made).cycle.size() >= 2);
}

TEST_CASE("mistakes in a table are told by row, column and cell") {
  CHECK_THROWS_WITH_AS(read_action_table("0F0,0B0\n1F0,1X0\n"),
                       "row 2, column 2: '1X0' is not an action such as 0F0, 1B0, 1I0 or 1W0",
                       plan_error);
  CHECK_THROWS_WITH(read_action_table("0F0,0B0\n1F0,0B1\n"),
                    "row 2, column 2: '0B1' runs stage 0, which row 1 runs too");
  CHECK_THROWS_WITH(read_action_table("0F0,(0F1;0B0)AT_ONCE\n"),
                    "row 1, column 2: '(0F1;0B0)AT_ONCE' is not a group such as "
                    "(1F3;0B2)OVERLAP_F_B");
  CHECK_THROWS_WITH(read_action_table("0F0,0F99999999999,0B0\n"),
                    "row 1, column 2: '0F99999999999' is not an action such as 0F0, 1B0, 1I0 or "
                    "1W0");
  CHECK_THROWS_WITH(read_action_table(""), "the table of actions is empty");
  CHECK_THROWS_WITH(read_action_table("0F0,0B0\n2F0,2B0\n"),
                    "the table of actions has no row for stage 1");
  CHECK_THROWS_WITH(read_action_table("0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n"),
                    "the table of actions is no plan: B1 of chunk 0 on rank 0 is missing");
  CHECK_THROWS_WITH(read_action_table("0F0,0F0,0B0\n"),
                    "the table of actions is no plan: F0 of chunk 0 on rank 0 is there twice");
  CHECK_THROWS_WITH(read_action_table_file("/no/such/table.csv"),
                    "cannot read the table of actions /no/such/table.csv");
}

TEST_CASE("a schedule file:PATH is a table, and must agree with the numbers asked for") {
  const auto path = std::filesystem::temp_directory_path() / "sluice_action_table_test.csv";
  std::ofstream{path} << write_action_table(make_plan("zb-v", {.stages = 2, .micro_batches = 5}));
  const auto name = "file:" + path.string();
  CHECK(make_plan(name, {.stages = 2, .micro_batches = 5}).schedule == name);
  CHECK(make_plan(name, {.stages = 0, .micro_batches = 0}).micro_batches == 5);
  CHECK_THROWS_WITH(make_plan(name, {.stages = 3, .micro_batches = 5}),
                    (name + " has 2 stages, not 3").c_str());
  std::filesystem::remove(path);
}
