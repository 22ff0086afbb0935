#include "actors/plan/draw.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace sluice::plan {

namespace {

constexpr double left = 64;   // of the rows
constexpr double top = 44;    // of the first row
constexpr double row = 26;    // from row to row
constexpr double height = 22; // of a task
constexpr double most_wide = 1600;

/// Text for XML.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text)
    switch (c) {
    case '<':
      safe += "&lt;";
      break;
    case '>':
      safe += "&gt;";
      break;
    case '&':
      safe += "&amp;";
      break;
    case '"':
      safe += "&quot;";
      break;
    default:
      safe += c;
    }
  return safe;
}

/// Later chunks of a rank are darker.
const char* fill(const plan& of, const task& which) {
  const bool first = of.chunks[which.chunk].local == 0;
  switch (which.kind) {
  case task_kind::forward:
    return first ? "#9ecbff" : "#5b93d6";
  case task_kind::backward:
    return first ? "#a7dfb3" : "#5fae74";
  case task_kind::weight:
    return first ? "#e3e3e3" : "#bdbdbd";
  case task_kind::update:
    break;
  }
  return "#f5b041";
}

/// A round step for the scale: 1, 2 or 5 times a power of ten, about ten to the whole.
double scale_step(double span) {
  const auto power = std::pow(10, std::floor(std::log10(span / 10)));
  for (const auto times : {1, 2, 5, 10})
    if (span / (power * times) <= 12)
      return power * times;
  return power * 10;
}

void draw_scale(std::string& svg, double end, double per_unit, double bottom,
                const std::string& unit) {
  if (end <= 0)
    return;
  for (double at = 0; at <= end * (1 + 1e-9); at += scale_step(end)) {
    const auto x = left + at * per_unit;
    svg += fmt::format("<line x1='{0:.2f}' y1='{1}' x2='{0:.2f}' y2='{2}' stroke='#ddd'/>\n"
                       "<text x='{0:.2f}' y='{3}' text-anchor='middle'>{4:.4g}</text>\n",
                       x, top - 4, bottom, bottom + 14, at);
  }
  svg += fmt::format("<text x='{}' y='{}'>{}</text>\n", left, bottom + 30, escaped(unit));
}

void draw_task(std::string& svg, const plan& of, const timed_task& each, double per_unit) {
  const auto x = left + each.start * per_unit;
  const auto width = (each.end - each.start) * per_unit;
  const auto y = top + each.rank * row;
  svg += fmt::format("<g><title>{}, {:.6g} to {:.6g}</title><rect x='{:.2f}' y='{:.2f}' "
                     "width='{:.2f}' height='{}' fill='{}' stroke='#fff' stroke-width='0.5'/>",
                     to_string(of, each.what), each.start, each.end, x, y, width, height,
                     fill(of, each.what));
  const auto label = fmt::format("{}", each.what.micro_batch);
  if (width >= 7.0 * static_cast<double>(label.size()))
    svg += fmt::format("<text x='{:.2f}' y='{:.2f}' text-anchor='middle'>{}</text>", x + width / 2,
                       y + height - 7, label);
  svg += "</g>\n";
}

} // namespace

std::string draw_svg(const plan& of, const simulation& ran, const std::string& unit) {
  double end = 0;
  double shortest = 0;
  for (const auto& each : ran.tasks) {
    end = std::max(end, each.end);
    if (const auto takes = each.end - each.start; takes > 0)
      shortest = shortest > 0 ? std::min(shortest, takes) : takes;
  }
  const auto wide = std::clamp(shortest > 0 ? end / shortest * 20 : 400, 400., most_wide);
  const auto per_unit = end > 0 ? wide / end : 1;
  const auto bottom = top + of.ranks * row;
  std::string svg = fmt::format(
    "<svg xmlns='http://www.w3.org/2000/svg' width='{0:.0f}' height='{1:.0f}' "
    "viewBox='0 0 {0:.0f} {1:.0f}' font-family='sans-serif' font-size='11'>\n"
    "<rect width='100%' height='100%' fill='#fff'/>\n"
    "<text x='{2}' y='22' font-size='14'>{3}, P = {4}, M = {5}: span {6:.6g}, bubble {7:.1f}%"
    "</text>\n",
    left + wide + 24, bottom + 44, left, escaped(of.schedule), of.ranks, of.micro_batches, ran.span,
    100 * ran.bubble());
  draw_scale(svg, end, per_unit, bottom, unit);
  for (std::int32_t r = 0; r < of.ranks; ++r)
    svg += fmt::format("<text x='8' y='{:.2f}'>rank {}</text>\n", top + r * row + height - 7, r);
  for (const auto& each : ran.tasks)
    draw_task(svg, of, each, per_unit);
  return svg + "</svg>\n";
}

} // namespace sluice::plan
