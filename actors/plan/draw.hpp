#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "actors/plan/plan.hpp"
#include "actors/plan/simulate.hpp"

namespace sluice::plan {

/// How a picture in text is made.
struct text_style {
  std::int32_t columns = 160; ///< at most; longer runs are shown at a coarser scale
  bool colours = false;       ///< ANSI: forwards blue, backwards green, weight gradients grey
};

/// A picture for the terminal: one row a rank, one column a slot of the shortest task. Forwards are
/// the last digit of their micro-batch, backwards a letter (a to j for 0 to 9), weight gradients
/// dots, updates 'u', idle time blanks:
///
///     0 | 0123   a4b5c d e f
///     1 |  012  a3b4c5d e f
///
/// Cost: tasks + ranks x columns.
std::string draw_text(const plan& of, const simulation& ran, const text_style& style = {});

/// The same as an SVG document, with a scale of time, the numbers of micro-batches where they fit,
/// and the whole of each task in its tooltip.
std::string draw_svg(const plan& of, const simulation& ran, const std::string& unit = "slots");

/// The numbers of a run, one line a rank: work, idle time between its first and last task, peak
/// activations (of one micro-batch over one of P equal stages).
std::string rank_table(const plan& of, const simulation& ran);

/// What crosses from rank to rank in a step.
struct traffic {
  std::int64_t messages = 0;
  double bytes = 0;
};
traffic count_traffic(const plan& of, double message_bytes);

/// One line of a comparison of schedules.
struct compared {
  std::string name;
  bool live = true;
  double span = 0;
  double cost = 0; ///< idle time of the worst rank
  double bubble = 0;
  double peak = 0; ///< activations, in whole stages
  std::int64_t messages = 0;
  std::string remark = {}; ///< why there are no numbers
};
compared compare(const plan& of, const conditions& under = {});
std::string comparison_table(std::span<const compared> lines);

} // namespace sluice::plan
