#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cli/failure.hpp"
#include "cli/training_run.hpp"

/// What a run does when workers fail. See training.cpp for the rest.

namespace sluice::cli {

namespace {

/// Faults of workers in a row, without a new step between them, after which it has none either.
constexpr int too_many_faults = 10;

} // namespace

void training::steps_despite_faults() {
  for (;;) {
    try {
      steps();
      last_state_ = line_->state();
      return;
    } catch (const actors::pipeline_error& problem) {
      if (!goes_on_after(problem))
        throw;
      recover(problem.what());
    }
  }
}

/// What failed on a worker that is there, such as a stage without memory, would fail again.
bool training::goes_on_after(const actors::pipeline_error& problem) const {
  return problem.lasting() && hosting_ && options_.hosts.on_fault == "continue";
}

/// Begins anew after the last checkpoint, with the workers that are there, until that holds.
void training::recover(std::string fault) {
  for (;;) {
    spdlog::warn("{}", fault);
    line_.reset(); // Lets the workers go.
    if (++faults_in_a_row_ > too_many_faults)
      throw actors::pipeline_error(
        fmt::format("{} faults without a step between them; the last: {}", too_many_faults, fault),
        true);
    const auto left = [&] {
      try {
        return hosting_->those_left();
      } catch (const std::runtime_error& none) {
        throw actors::pipeline_error(fmt::format("{}; {}", fault, none.what()), true);
      }
    }();
    try {
      continue_with(left);
      record_.faults.push_back(fmt::format("{}; continued after step {} with {}", fault,
                                           record_.step, count_of(plan_.ranks, "stage")));
      return;
    } catch (const actors::pipeline_error& problem) {
      if (!problem.lasting())
        throw;
      record_.faults.push_back(fault);
      fault = problem.what();
    }
  }
}

void training::continue_with(hosting::muster left) {
  for (const auto& each : left.absent)
    spdlog::warn("going on without the worker {}", each);
  replan(left.placement);
  start_line(left);
  go_back();
  fmt::print(stderr, "continuing after step {} with {}:\n", record_.step,
             count_of(plan_.ranks, "stage"));
  show_stages();
}

/// Puts the weights and the record back to where the run continues: the same data follow, so the
/// results are those of a run that was never disturbed.
void training::go_back() {
  if (const auto from = newest_checkpoint()) {
    line_->install(from->state);
    record_.step = from->state->step;
  } else {
    record_.step = 0;
  }
  record_.curve.go_back_to(static_cast<std::int64_t>(record_.step));
  saved_at_ = std::nullopt;
  skipped_in_a_row_ = 0;
}

/// This run's, or else the one that it started from.
std::optional<checkpoint> training::newest_checkpoint() const {
  if (checkpoints_ && !checkpoints_->list().empty())
    return find_checkpoint(checkpoints_->folder());
  if (!options_.resume.empty())
    return find_checkpoint(options_.resume);
  return std::nullopt;
}

/// A plan for as many stages as have a place; where the schedule cannot have so many, for fewer.
void training::replan(std::vector<std::string>& placement) {
  for (;;) {
    options_.how = how_at_first_;
    options_.how.stages = static_cast<int>(placement.size());
    if (options_.how.stages != how_at_first_.stages) {
      // What was chosen for the old number of stages says nothing of the new one.
      options_.how.cut.clear();
      options_.how.take_in.clear();
      options_.how.recompute_stages.clear();
    }
    try {
      plan_ = plan_of(options_.what, options_.how);
      return;
    } catch (const usage_error& problem) {
      placement.pop_back();
      if (placement.empty())
        throw actors::pipeline_error(problem.what(), true);
    }
  }
}

} // namespace sluice::cli
