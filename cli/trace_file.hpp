#pragma once

#include <cstdint>
#include <filesystem>

#include "actors/plan/plan.hpp"
#include "actors/plan/simulate.hpp"
#include "actors/report.hpp"

namespace sluice::cli {

/// The tasks of a step as they ran, and what is needed of the plan to draw them.
struct executed_schedule {
  std::uint64_t step = 0; ///< from 1
  plan::plan plan;        ///< its name, sizes and chunks; no lanes
  plan::simulation ran;   ///< in milliseconds from the first start
};

/// Writes the tasks of a step as Chrome's trace events (JSON), which Perfetto and chrome://tracing
/// show: a row for each stage, a span for each task. Written atomically.
void write_trace(const std::filesystem::path& file, const plan::plan& plan,
                 const actors::step_report& report);

/// Reads what write_trace() wrote. Errors: usage_error for a file that is missing or anything else.
executed_schedule read_trace(const std::filesystem::path& file);

} // namespace sluice::cli
