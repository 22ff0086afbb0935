#include "cli/loss_curve.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <doctest/doctest.h>

#include "tests/support/temporary_folder.hpp"

using namespace sluice::cli;
using sluice::test::content_of;
using sluice::test::temporary_folder;

namespace {

loss_curve falling_curve(std::int64_t steps) {
  loss_curve curve;
  for (std::int64_t step = 1; step <= steps; ++step) {
    loss_point point{.step = step,
                     .loss = 2 + 3.5 * std::exp(-double(step) / 40),
                     .held_out = {},
                     .lr = 1e-3,
                     .gradient_norm = 0.5,
                     .seconds = 0.25};
    if (step % 50 == 0)
      point.held_out = point.loss + 0.1;
    curve.add(point);
  }
  return curve;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

} // namespace

TEST_CASE("the CSV has a heading and a line a step; what was not measured is empty") {
  loss_curve curve;
  curve.add(
    {.step = 1, .loss = 5.5, .held_out = {}, .lr = 0.001, .gradient_norm = 2, .seconds = 1});
  curve.add(
    {.step = 2, .loss = 0.1, .held_out = 5.25, .lr = 0.002, .gradient_norm = NAN, .seconds = 0.5});
  CHECK(curve.csv()
        == "step,loss,held_out,lr,gradient_norm,seconds\n"
           "1,5.5,,0.001,2,1\n"
           "2,0.1,5.25,0.002,nan,0.5\n");
}

TEST_CASE("the chart has both lines, their names, marks on both axes and their labels") {
  const auto svg = falling_curve(300).svg("loss of a < b & c");
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  for (const auto* part : {">training<", ">held out<", ">step<", ">loss (nats per token)<", ">300<",
                           ">2<", ">5<", "a &lt; b &amp; c"})
    CHECK_MESSAGE(svg.find(part) != std::string::npos, part);
}

TEST_CASE("without held-out losses the chart has one line and one name") {
  const auto svg = falling_curve(40).svg("short");
  CHECK(svg.find("held out") == std::string::npos);
}

TEST_CASE("a long run draws no more than its picture can show") {
  const auto svg = falling_curve(200'000).svg("long");
  CHECK(svg.size() < 100'000);
}

TEST_CASE("a spike between two columns of a long run is still drawn") {
  loss_curve curve;
  for (std::int64_t step = 0; step < 100'000; ++step)
    curve.add({.step = step, .loss = step == 51'234 ? 10.0 : 2.0 + (step % 2), .held_out = {}});
  // The highest loss, on an axis that ends at it, lies at the plot's top.
  CHECK(curve.svg("spike").find(" 45.0L") != std::string::npos);
}

TEST_CASE("a loss that is no number leaves a gap, and the axes stay") {
  auto curve = falling_curve(10);
  curve.add({.step = 11, .loss = NAN, .held_out = INFINITY});
  curve.add({.step = 12, .loss = 3, .held_out = {}});
  const auto svg = curve.svg("gap");
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  CHECK(count(svg, "h0") == 2); // two pieces
}

TEST_CASE("no point, one point and equal losses make a chart too") {
  loss_curve curve;
  CHECK(curve.svg("empty").ends_with("</svg>\n"));
  curve.add({.step = 7, .loss = 2, .held_out = {}});
  CHECK(curve.svg("one").find("nan") == std::string::npos);
  curve.add({.step = 8, .loss = 2, .held_out = {}});
  CHECK(curve.svg("equal").find("nan") == std::string::npos);
}

TEST_CASE("both are written to files") {
  const temporary_folder folder;
  const auto curve = falling_curve(60);
  curve.write_csv(folder.path() / "loss.csv");
  curve.write_svg(folder.path() / "loss.svg", "a run");
  CHECK(content_of(folder.path() / "loss.csv") == curve.csv());
  CHECK(content_of(folder.path() / "loss.svg") == curve.svg("a run"));
}
