#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "bench/jitter.hpp"

namespace sluice::bench {

namespace {

constexpr double left = 120;
constexpr double top = 64;
constexpr double row_height = 20;
constexpr double panel_width = 210;
constexpr double gap = 36;
constexpr double tick_gap = 16;

/// Where a value of one panel lies.
struct scale {
  double x0 = 0;
  double low = 1;
  double high = 2;

  double at(double value) const { return x0 + (value - low) / (high - low) * panel_width; }
};

std::string text(double x, double y, const std::string& anchor, const std::string& what) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     what);
}

std::string grid(const scale& in, double bottom) {
  const double step = in.high - in.low > 1 ? 0.5 : in.high - in.low > 0.5 ? 0.2 : 0.1;
  std::string svg;
  for (int i = 0; in.low + i * step <= in.high + 1e-9; ++i) {
    const auto x = in.at(in.low + i * step);
    svg += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", x, top, bottom);
    svg += text(x, bottom + tick_gap, "middle", fmt::format("{:.1f}", in.low + i * step));
  }
  return svg;
}

/// From the static order (hollow) to the rule (filled).
std::string dumbbell(const scale& in, const jitter_line& line, double y) {
  const auto kind = line.ratio() > 1.001 ? "worse" : "better";
  const auto from = in.at(line.fixed);
  const auto to = in.at(line.rule);
  return fmt::format(
    "<g class=\"{}\"><title>{}, {}: static {:.3f}, rule {:.3f}, ratio {:.3f}</title>"
    "<path d=\"M{:.1f} {:.1f}H{:.1f}\"/><circle class=\"static\" cx=\"{:.1f}\" cy=\"{:.1f}\" "
    "r=\"4\"/><circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/></g>\n",
    kind, line.schedule, line.noise, line.fixed, line.rule, line.ratio(), from, y, to, from, y, to,
    y);
}

std::string panel(std::span<const jitter_line> lines, double x0, double bottom) {
  double high = 1;
  for (const auto& line : lines)
    high = std::max({high, line.fixed, line.rule});
  const scale in{x0, 1, high > 2 ? 0.5 * std::ceil(high * 2) : 0.1 * std::ceil(high * 10)};
  auto svg = grid(in, bottom);
  svg += text(x0 + panel_width / 2, top - 10, "middle", lines.front().noise);
  for (std::size_t row = 0; row < lines.size(); ++row)
    svg += dumbbell(in, lines[row], top + row_height * (static_cast<double>(row) + 0.5));
  return svg;
}

} // namespace

std::string jitter_svg(std::span<const jitter_line> lines, const std::string& title) {
  std::size_t rows = 0;
  while (rows < lines.size() && lines[rows].noise == lines.front().noise)
    ++rows;
  const auto panels = rows > 0 ? lines.size() / rows : 0;
  const auto bottom = top + row_height * static_cast<double>(rows);
  const auto width = left + (panel_width + gap) * static_cast<double>(panels);
  std::string svg =
    fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
                "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n<style>text{{font:12px sans-serif;fill:#222}}"
                "path{{stroke-width:2}}.grid{{stroke:#ddd;stroke-width:1}}"
                ".better path{{stroke:#1f77b4}}.better circle{{fill:#1f77b4}}"
                ".worse path{{stroke:#d62728}}.worse circle{{fill:#d62728}}"
                "circle.static{{fill:#fff!important;stroke:#666;stroke-width:1.5}}</style>\n"
                "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                width, bottom + 44);
  svg += text(8, 20, "start", title);
  svg += text(8, 36, "start",
              "Step time over a rank's mean work. Hollow: the static order; filled: the rule; red "
              "where it is more than 0.1% slower.");
  for (std::size_t row = 0; row < rows; ++row)
    svg += text(left - 12, top + row_height * (static_cast<double>(row) + 0.5) + 4, "end",
                lines[row].schedule);
  for (std::size_t p = 0; p < panels; ++p)
    svg += panel(lines.subspan(p * rows, rows), left + (panel_width + gap) * static_cast<double>(p),
                 bottom);
  return svg + "</svg>\n";
}

} // namespace sluice::bench
