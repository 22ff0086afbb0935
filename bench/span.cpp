#include "bench/span.hpp"

#include "actors/plan/dispatch.hpp"
#include "bench/cases.hpp"

namespace sluice::bench {

std::vector<measurement> measure_spans(const span_options& how) {
  std::vector<measurement> lines;
  for (const auto& of : contenders(how.stages, how.micro_batches, false)) {
    const auto stage_seconds = how.task_seconds / of.rule.share();
    const plan::conditions under{.stage = {stage_seconds, stage_seconds, stage_seconds},
                                 .patience = plan::default_patience_seconds};
    const auto planned = plan::simulate(of.rule, under).span;
    lines.push_back({of.name, executed_span(of.rule, under, how.steps), "s", "planned", planned});
  }
  return lines;
}

} // namespace sluice::bench
