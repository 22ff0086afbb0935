#include "actors/plan/draw.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "actors/plan/check.hpp"

namespace sluice::plan {

namespace {

char symbol(const task& which) {
  const auto last_digit = static_cast<char>(which.micro_batch % 10);
  switch (which.kind) {
  case task_kind::forward:
    return static_cast<char>('0' + last_digit);
  case task_kind::backward:
    return static_cast<char>('a' + last_digit);
  case task_kind::weight:
    return '.';
  case task_kind::update:
    break;
  }
  return 'u';
}

/// Later chunks of a rank are darker.
int colour(const plan& of, const task& which) {
  const bool first = of.chunks[which.chunk].local == 0;
  switch (which.kind) {
  case task_kind::forward:
    return first ? 75 : 32;
  case task_kind::backward:
    return first ? 78 : 35;
  case task_kind::weight:
    return first ? 250 : 244;
  case task_kind::update:
    break;
  }
  return 214;
}

double shortest(const simulation& ran) {
  auto found = std::numeric_limits<double>::infinity();
  for (const auto& each : ran.tasks)
    if (each.end > each.start)
      found = std::min(found, each.end - each.start);
  return std::isfinite(found) ? found : 1;
}

struct grid {
  std::vector<std::vector<const timed_task*>> cells; // by rank and column; null: idle
  double slot = 1;
};

/// Each column shows what runs at its middle.
grid make_grid(const plan& of, const simulation& ran, std::int32_t columns) {
  grid made;
  double end = 0;
  for (const auto& each : ran.tasks)
    end = std::max(end, each.end);
  made.slot = std::max(shortest(ran), end / std::max(columns, 1));
  const auto count = static_cast<std::int64_t>(std::ceil(end / made.slot - 1e-9));
  made.cells.assign(of.ranks, std::vector<const timed_task*>(count));
  for (const auto& each : ran.tasks) {
    const auto first = static_cast<std::int64_t>(std::ceil(each.start / made.slot - 0.5 - 1e-9));
    for (auto c = first; c < count && (static_cast<double>(c) + 0.5) * made.slot < each.end - 1e-9;
         ++c)
      made.cells[each.rank][c] = &each;
  }
  return made;
}

} // namespace

std::string draw_text(const plan& of, const simulation& ran, const text_style& style) {
  const auto made = make_grid(of, ran, style.columns);
  const auto width = fmt::formatted_size("{}", of.ranks - 1);
  std::string text;
  for (std::int32_t r = 0; r < of.ranks; ++r) {
    std::string row = fmt::format("{:>{}} | ", r, width);
    std::size_t end = made.cells[r].size();
    while (end > 0 && !made.cells[r][end - 1])
      --end;
    for (std::size_t c = 0; c < end; ++c) {
      const auto* cell = made.cells[r][c];
      if (!cell)
        row += ' ';
      else if (style.colours)
        row += fmt::format("\x1b[30;48;5;{}m{}\x1b[0m", colour(of, cell->what), symbol(cell->what));
      else
        row += symbol(cell->what);
    }
    text += row + '\n';
  }
  return text;
}

std::string rank_table(const plan& of, const simulation& ran) {
  std::string text = fmt::format("{:>4}  {:>10}  {:>10}  {:>6}  {:>16}\n", "rank", "work", "idle",
                                 "busy", "peak activations");
  for (std::size_t r = 0; r < ran.by_rank.size(); ++r) {
    const auto& mine = ran.by_rank[r];
    text += fmt::format("{:>4}  {:>10.6g}  {:>10.6g}  {:>5.1f}%  {:>16.4g}\n", r, mine.work,
                        mine.idle(), ran.span > 0 ? 100 * mine.work / ran.span : 0,
                        mine.peak_activations * of.share());
  }
  return text;
}

traffic count_traffic(const plan& of, double message_bytes) {
  traffic found;
  const topology feeds{of};
  std::vector<std::int64_t> batches(of.routes.size());
  for (const auto route : of.route_of)
    ++batches[route];
  for (std::size_t c = 0; c < of.chunks.size(); ++c)
    for (const auto to : feeds.targets(static_cast<std::int32_t>(c)))
      if (of.chunks[to].rank != of.chunks[c].rank)
        found.messages += batches[feeds.route(to)] * (of.forward_only ? 1 : 2);
  found.bytes = static_cast<double>(found.messages) * message_bytes;
  return found;
}

compared compare(const plan& of, const conditions& under) {
  compared line{.name = of.schedule};
  line.messages = count_traffic(of, 0).messages;
  const auto checked = check(of);
  line.live = checked.live;
  if (!line.live) {
    line.remark = "cannot finish";
    return line;
  }
  const auto ran = simulate(of, under);
  line.span = ran.span;
  line.cost = ran.cost();
  line.bubble = ran.bubble();
  for (const auto& mine : ran.by_rank)
    line.peak = std::max(line.peak, mine.peak_activations * of.share());
  return line;
}

std::string comparison_table(std::span<const compared> lines) {
  std::size_t width = 8;
  for (const auto& line : lines)
    width = std::max(width, line.name.size());
  std::string text =
    fmt::format("{:<{}}  {:>10}  {:>10}  {:>7}  {:>16}  {:>8}\n", "schedule", width, "span",
                "worst idle", "bubble", "peak activations", "messages");
  for (const auto& line : lines)
    text += line.remark.empty()
            ? fmt::format("{:<{}}  {:>10.6g}  {:>10.6g}  {:>6.1f}%  {:>16.4g}  {:>8}\n", line.name,
                          width, line.span, line.cost, 100 * line.bubble, line.peak, line.messages)
            : fmt::format("{:<{}}  {}\n", line.name, width, line.remark);
  return text;
}

} // namespace sluice::plan
