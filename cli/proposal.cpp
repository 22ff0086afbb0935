#include "cli/proposal.hpp"

#include <algorithm>
#include <vector>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/plan/make_plan.hpp"
#include "cli/failure.hpp"

namespace sluice::cli {

namespace {

/// The plan of the proposal's schedule as it ships, to see what the search has changed.
plan::plan shipped(const plan::proposal& of) {
  plan::plan_request wanted{.stages = of.made.ranks, .micro_batches = of.made.micro_batches};
  wanted.chunks = static_cast<std::int32_t>(of.made.chunks.size()) / std::max(of.made.ranks, 1);
  return plan::make_plan(of.made.schedule, wanted);
}

bool chunks_are_free(const std::string& schedule) {
  return std::ranges::any_of(plan::all_schedules(), [&](const plan::schedule& each) {
    return each.name == schedule && each.chunks_free;
  });
}

std::vector<std::int32_t> warm_up_levels(const plan::plan& of) {
  std::vector<std::int32_t> levels;
  for (const auto& mine : of.by_rank)
    levels.push_back(mine.warm_up);
  return levels;
}

} // namespace

void add_proposal_options(CLI::App& to, execution& how) {
  to.add_option("--take-in", how.take_in,
                "micro-batches that each stage takes in before its first backward, as `sluice "
                "plan` proposes: 4,3,2,1 [the schedule's]")
    ->delimiter(',');
  to.add_option("--recompute-stages", how.recompute_stages,
                "only these stages recompute, as `sluice plan` proposes: 0,1")
    ->delimiter(',');
}

void apply_proposal_options(plan::plan& to, const execution& how) {
  if (!how.take_in.empty() && how.take_in.size() != to.by_rank.size())
    throw usage_error(
      fmt::format("--take-in: {} numbers for {} stages", how.take_in.size(), to.ranks));
  for (std::size_t r = 0; r < how.take_in.size(); ++r)
    to.by_rank[r].warm_up = how.take_in[r];
  for (const auto stage : how.recompute_stages)
    if (stage < 0 || stage >= to.ranks)
      throw usage_error(
        fmt::format("--recompute-stages: there is no stage {}, only 0 to {}", stage, to.ranks - 1));
}

std::string train_command_line(const plan::proposal& of, const recipe& measured) {
  auto line =
    fmt::format("sluice train --model {} --layers {} --width {} --heads {} --length {} "
                "--optimizer {} --micro-batch-size {} --micro-batches {} --stages {} "
                "--schedule {}",
                measured.model, measured.layers, measured.width, measured.heads, measured.length,
                measured.optimizer, measured.micro_batch_size * of.merged, of.made.micro_batches,
                of.made.ranks, of.made.schedule);
  if (measured.precision != "float32")
    line += fmt::format(" --precision {}", measured.precision);
  if (measured.dropout > 0)
    line += fmt::format(" --dropout {}", measured.dropout);
  if (chunks_are_free(of.made.schedule))
    line +=
      fmt::format(" --chunks {}", of.made.chunks.size() / static_cast<std::size_t>(of.made.ranks));
  std::vector<std::size_t> cut;
  for (const auto& range : of.parts)
    cut.push_back(range.size());
  line += fmt::format(" --cut {}", fmt::join(cut, ","));
  const auto levels = warm_up_levels(of.made);
  if (levels != warm_up_levels(shipped(of)))
    line += fmt::format(" --take-in {}", fmt::join(levels, ","));
  std::vector<std::size_t> again;
  for (std::size_t r = 0; r < of.recomputes.size(); ++r)
    if (of.recomputes[r])
      again.push_back(r);
  if (again.size() == of.recomputes.size())
    line += " --recompute";
  else if (!again.empty())
    line += fmt::format(" --recompute-stages {}", fmt::join(again, ","));
  return line;
}

} // namespace sluice::cli
