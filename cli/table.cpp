#include "cli/table.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace sluice::cli {

namespace {

constexpr std::string_view gap = "  ";

std::string percent(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1024 * 1024));
}

} // namespace

table::table(std::vector<std::string> headings) {
  rows_.push_back(std::move(headings));
}

void table::add(std::vector<std::string> cells) {
  if (cells.size() != rows_.front().size())
    throw std::invalid_argument{fmt::format("a table of {} columns was given a row of {}",
                                            rows_.front().size(), cells.size())};
  rows_.push_back(std::move(cells));
}

std::string table::text() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_)
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());

  std::string text;
  const auto add_line = [&](const auto& cell) {
    for (std::size_t column = 0; column < widths.size(); ++column)
      text += fmt::format("{}{}", column == 0 ? "" : gap, cell(column));
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  };
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    add_line([&](std::size_t column) {
      return column == 0 ? fmt::format("{:<{}}", rows_[row][column], widths[column])
                         : fmt::format("{:>{}}", rows_[row][column], widths[column]);
    });
    if (row == 0)
      add_line([&](std::size_t column) { return std::string(widths[column], '-'); });
  }
  return text;
}

std::string stage_table(std::span<const stage_row> stages) {
  table report{
    {"stage", "layers", "busy %", "bubble %", "peak activations", "activation MiB", "total MiB"}};
  for (const auto& stage : stages)
    report.add({fmt::format("{}", stage.stage), stage.layers, percent(stage.busy),
                percent(stage.bubble), fmt::format("{}", stage.peak_activations),
                mebibytes(stage.peak_activation_bytes), mebibytes(stage.peak_bytes)});
  return report.text();
}

} // namespace sluice::cli
