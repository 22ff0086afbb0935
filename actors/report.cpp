#include "actors/report.hpp"

#include <algorithm>
#include <limits>

#include "actors/messages.hpp"

namespace sluice::actors {

namespace {

constexpr double nanosecond = 1e-9;

stage_report report_of(const stage_done& stage, std::int64_t span_ns) {
  stage_report result{.rank = stage.rank, .memory = stage.memory};
  std::int64_t busy = 0;
  for (const auto& each : stage.tasks)
    busy += each.end_ns - each.start_ns;
  result.busy_seconds = static_cast<double>(busy) * nanosecond;
  if (!stage.tasks.empty()) {
    const auto active = stage.tasks.back().end_ns - stage.tasks.front().start_ns;
    result.idle_seconds = static_cast<double>(active - busy) * nanosecond;
  }
  for (const auto& each : stage.losses)
    result.loss = result.loss.value_or(0.0) + each.sum;
  if (span_ns > 0)
    result.bubble = 1.0 - static_cast<double>(busy) / static_cast<double>(span_ns);
  return result;
}

} // namespace

void summarise(step_report& into, std::vector<stage_done> stages) {
  auto first = std::numeric_limits<std::int64_t>::max();
  auto last = std::numeric_limits<std::int64_t>::min();
  for (const auto& stage : stages) {
    if (stage.tasks.empty())
      continue;
    first = std::min(first, stage.tasks.front().start_ns);
    last = std::max(last, stage.tasks.back().end_ns);
  }
  const auto span = std::max<std::int64_t>(last - first, 0);
  into.span_seconds = static_cast<double>(span) * nanosecond;
  double bubbles = 0;
  for (auto& stage : stages) {
    into.stages.push_back(report_of(stage, span));
    bubbles += into.stages.back().bubble;
    into.tasks.push_back(std::move(stage.tasks));
  }
  into.bubble = stages.empty() ? 0 : bubbles / static_cast<double>(stages.size());
}

} // namespace sluice::actors
