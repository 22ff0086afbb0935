#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "actors/plan/plan.hpp"
#include "actors/report.hpp"
#include "cli/loss_curve.hpp"
#include "cli/train_options.hpp"

namespace sluice::cli {

/// What a run has shown of itself so far.
struct run_record {
  std::uint64_t step = 0; ///< finished, those before a resume included
  loss_curve curve = {};
  std::vector<double> step_seconds = {};
  std::vector<double> bubbles = {};
  std::vector<std::string> faults = {};
  actors::step_report last = {}; ///< the last step's

  /// The median time of the last steps.
  double recent_step_seconds() const;
};

/// The results as `--json` gives them; `weights_sha256` is null where it is empty.
nlohmann::json train_summary(const run_record& record, const recipe& what,
                             const std::string& weights_sha256);

/// "embedding to h.0.mlp": what a rank hosts, chunk by chunk. `parts`: the layers of each part.
std::string layers_on(std::int32_t rank, const plan::plan& plan,
                      const std::vector<std::vector<std::string>>& parts);

/// The same for people: a table of the stages in the last step, then losses and speed. `layers`: of
/// each stage, in words.
std::string train_text(const run_record& record, const nlohmann::json& summary,
                       const std::vector<std::string>& layers);

/// Writes the loss curve as CSV and beside it, with the ending .svg, as a picture. A `file` with
/// that ending names the picture. Errors: as write_atomically().
void write_curve(const loss_curve& curve, const std::filesystem::path& file);

} // namespace sluice::cli
