#include "actors/plan/action_table.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "actors/plan/check.hpp"
#include "actors/plan/make_plan.hpp"
#include "actors/plan/simulate.hpp"

namespace sluice::plan {

namespace {

struct action {
  std::int32_t stage = 0;
  std::string_view kind;
  std::int32_t micro_batch = 0;
};

std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t\r\"";
  const auto begin = text.find_first_not_of(blank);
  if (begin == text.npos)
    return {};
  return text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

/// Cuts the next piece off the front of a text, up to a separator or the end.
std::string_view next_piece(std::string_view& text, char separator) {
  const auto end = std::min(text.find(separator), text.size());
  const auto piece = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return piece;
}

/// Takes digits off the front of a text. Large numbers are refused: they are slips, and lanes as
/// long as they say would follow.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0 || number > 10'000'000)
    return std::nullopt;
  text.remove_prefix(end - text.data());
  return number;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class reader {
public:
  plan read(std::string_view csv) {
    while (!csv.empty()) {
      auto line = next_piece(csv, '\n');
      if (trim(line).empty() && trim(csv).empty())
        break;
      read_row(line);
    }
    if (made_.by_rank.empty())
      throw plan_error("the table of actions is empty");
    made_.ranks = static_cast<std::int32_t>(made_.by_rank.size());
    place();
    made_.forward_only = std::all_of(made_.by_rank.begin(), made_.by_rank.end(),
                                     [](const rank_plan& mine) { return mine.backwards.empty(); });
    for (auto& mine : made_.by_rank)
      count_credits(mine);
    if (const auto errors = shape_errors(made_); !errors.empty())
      throw plan_error(fmt::format("the table of actions is no plan: {}", errors.front()));
    return std::move(made_);
  }

private:
  void read_row(std::string_view line) {
    made_.by_rank.emplace_back();
    ++row_;
    for (column_ = 1; !line.empty(); ++column_)
      read_cell(trim(next_piece(line, ',')));
  }

  void read_cell(std::string_view cell) {
    if (cell.empty())
      return;
    if (cell.front() != '(')
      return read_action(cell, cell);
    const auto close = cell.find(')');
    if (close == cell.npos || cell.substr(close + 1) != "OVERLAP_F_B")
      fail(cell, "is not a group such as (1F3;0B2)OVERLAP_F_B");
    auto inside = cell.substr(1, close - 1);
    while (!inside.empty())
      read_action(trim(next_piece(inside, ';')), cell);
  }

  void read_action(std::string_view text, std::string_view cell) {
    auto rest = text;
    const auto stage = take_number(rest);
    const auto kind_end = std::min(rest.find_first_of("0123456789"), rest.size());
    const auto kind = rest.substr(0, kind_end);
    rest.remove_prefix(kind_end);
    const auto micro_batch = take_number(rest);
    if (stage && rest.empty()
        && is_one_of(kind,
                     {"SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"}))
      return;
    if (!stage || !micro_batch || !rest.empty() || !is_one_of(kind, {"F", "B", "I", "W"}))
      fail(cell, "is not an action such as 0F0, 1B0, 1I0 or 1W0");
    add({*stage, kind, *micro_batch}, cell);
  }

  void add(const action& which, std::string_view cell) {
    const auto rank = row_ - 1;
    if (static_cast<std::size_t>(which.stage) >= rank_of_.size())
      rank_of_.resize(which.stage + 1, -1);
    if (rank_of_[which.stage] >= 0 && rank_of_[which.stage] != rank)
      fail(cell, fmt::format("runs stage {}, which row {} runs too", which.stage,
                             rank_of_[which.stage] + 1));
    rank_of_[which.stage] = rank;
    made_.micro_batches = std::max(made_.micro_batches, which.micro_batch + 1);
    const auto kind = which.kind == "F" ? task_kind::forward
                    : which.kind == "W" ? task_kind::weight
                                        : task_kind::backward;
    auto& mine = made_.by_rank[rank];
    mine.lane(kind).push_back(
      {.chunk = which.stage, .micro_batch = which.micro_batch, .split = which.kind == "I"});
    mine.order.push_back(kind);
  }

  void place() {
    std::vector<std::int32_t> on_rank(made_.ranks);
    for (std::size_t stage = 0; stage < rank_of_.size(); ++stage) {
      if (rank_of_[stage] < 0)
        throw plan_error(fmt::format("the table of actions has no row for stage {}", stage));
      made_.chunks.push_back({.rank = rank_of_[stage],
                              .part = static_cast<std::int32_t>(stage),
                              .local = on_rank[rank_of_[stage]]++});
    }
    made_.parts = static_cast<std::int32_t>(rank_of_.size());
    auto& route = made_.routes.emplace_back(rank_of_.size());
    std::iota(route.begin(), route.end(), 0);
    made_.route_of.assign(made_.micro_batches, 0);
  }

  void count_credits(rank_plan& mine) {
    std::int32_t held = 0;
    std::size_t backwards = 0;
    for (const auto kind : mine.order) {
      held += kind == task_kind::forward && !made_.forward_only;
      mine.credits = std::max(mine.credits, held);
      held -= kind == task_kind::weight
           || (kind == task_kind::backward && !mine.backwards[backwards].split);
      backwards += kind == task_kind::backward;
    }
    mine.warm_up = mine.credits;
  }

  [[noreturn]] void fail(std::string_view cell, std::string_view what) const {
    throw plan_error(fmt::format("row {}, column {}: '{}' {}", row_, column_, cell, what));
  }

  plan made_{.schedule = "file"};
  std::vector<std::int32_t> rank_of_; // by stage; -1: not seen
  std::int32_t row_ = 0;
  std::int32_t column_ = 0;
};

} // namespace

plan read_action_table(std::string_view csv) {
  return reader{}.read(csv);
}

plan read_action_table_file(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  const std::string csv{std::istreambuf_iterator<char>{file}, {}};
  if (!file)
    throw plan_error(fmt::format("cannot read the table of actions {}", path));
  try {
    return read_action_table(csv);
  } catch (const plan_error& error) {
    throw plan_error(fmt::format("{}: {}", path, error.what()));
  }
}

std::string write_action_table(const plan& of) {
  if (of.asynchronous)
    throw plan_error(fmt::format("{} updates weights within the step: no table of actions can say "
                                 "so",
                                 of.schedule));
  if (static_cast<std::size_t>(of.parts) != of.chunks.size())
    throw plan_error(
      fmt::format("{} has parts on two ranks: no table of actions can say so", of.schedule));
  const auto ran = simulate(of);
  if (!ran.finished)
    throw plan_error(check(of).text);
  std::vector<std::string> rows(of.ranks);
  std::vector<std::size_t> backwards(of.ranks);
  for (const auto& each : ran.tasks) {
    auto& row = rows[each.rank];
    auto kind = letter(each.what.kind);
    if (each.what.kind == task_kind::backward
        && of.by_rank[each.rank].backwards[backwards[each.rank]++].split)
      kind = 'I';
    row += fmt::format("{}{}{}{}", row.empty() ? "" : ",", of.chunks[each.what.chunk].part, kind,
                       each.what.micro_batch);
  }
  return fmt::format("{}\n", fmt::join(rows, "\n"));
}

} // namespace sluice::plan
