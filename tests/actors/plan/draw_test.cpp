#include "actors/plan/draw.hpp"

#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>

#include "actors/plan/make_plan.hpp"

using namespace sluice::plan;

TEST_CASE("a long run is shown at a coarser scale, never wider than asked") {
  const auto made = make_plan("1f1b", {.stages = 3, .micro_batches = 200});
  std::istringstream text{draw_text(made, simulate(made), {.columns = 60})};
  for (std::string line; std::getline(text, line);)
    CHECK(line.size() <= 60 + 4);
}

TEST_CASE("ranks of two digits keep their rows aligned") {
  const auto made = make_plan("gpipe", {.stages = 11, .micro_batches = 1});
  const auto text = draw_text(made, simulate(made));
  CHECK(text.starts_with(" 0 | 0"));
  CHECK(text.find("\n10 |           0aa") != std::string::npos);
}

TEST_CASE("an SVG has every task once and its name escaped") {
  auto made = make_plan("zb-h1", {.stages = 3, .micro_batches = 5});
  made.schedule = "file:<a&b>";
  const auto svg = draw_svg(made, simulate(made));
  std::size_t tasks = 0;
  for (auto at = svg.find("<g><title>"); at != svg.npos; at = svg.find("<g><title>", at + 1))
    ++tasks;
  CHECK(tasks == 3 * 5 * 3);
  CHECK(svg.find("file:&lt;a&amp;b&gt;, P = 3, M = 5") != std::string::npos);
  CHECK(svg.find("W4 of chunk 0 on rank 2") != std::string::npos);
  CHECK(svg.ends_with("</svg>\n"));
}

TEST_CASE("schedules are compared side by side") {
  std::vector<compared> lines;
  for (const auto* name : {"1f1b", "zb-h1"})
    lines.push_back(compare(make_plan(name, {.stages = 4, .micro_batches = 8})));
  auto dead = make_plan("1f1b", {.stages = 4, .micro_batches = 8});
  dead.by_rank[0].credits = 1;
  lines.push_back(compare(dead));
  CHECK(comparison_table(lines)
        == "schedule        span  worst idle   bubble  peak activations  messages\n"
           "1f1b              33           9    27.3%                 4        48\n"
           "zb-h1             27           3    11.1%                 4        48\n"
           "1f1b      cannot finish\n");
}

TEST_CASE("traffic counts what crosses between ranks only") {
  const auto v = make_plan("zb-v", {.stages = 4, .micro_batches = 10});
  CHECK(count_traffic(v, 8).messages == 10 * 6 * 2); // the turn of the V stays on its rank
  CHECK(count_traffic(v, 8).bytes == 8 * 10 * 6 * 2);
  CHECK(count_traffic(forward_only(v), 8).messages == 10 * 6);
}
