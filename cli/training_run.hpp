#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/checkpoint.hpp"
#include "cli/checkpoint_dir.hpp"
#include "cli/hosting.hpp"
#include "cli/model.hpp"
#include "cli/session.hpp"
#include "cli/text_data.hpp"
#include "cli/train_options.hpp"
#include "cli/train_report.hpp"

namespace sluice::cli {

/// A run of `sluice train`, from its options to its results. What it does about faults of workers
/// is in training_faults.cpp, the rest in training.cpp.
class training {
public:
  training(train_options options, const CLI::App& given);

  int run();

private:
  void open_checkpoints();
  void start();
  void start_line(const hosting::muster& at);
  void show_stages();
  void steps_despite_faults();
  bool goes_on_after(const actors::pipeline_error& problem) const;
  void recover(std::string fault);
  void continue_with(hosting::muster left);
  void go_back();
  std::optional<checkpoint> newest_checkpoint() const;
  void replan(std::vector<std::string>& placement);
  void steps();
  void note(const actors::step_report& report);
  double held_out_loss();
  void save(std::shared_ptr<const actors::model_state> state);
  void write_files(const nlohmann::json& summary) const;
  void rescue(const std::string& fault, bool weights_are_sound);
  void finish(int signal);

  /// Weights that give no finite loss are not worth a checkpoint's place.
  bool is_sound() const { return std::isfinite(record_.last.loss); }

  std::string fingerprint() const { return fmt::format("{:016x}", text_.fingerprint()); }

  train_options options_;
  const execution how_at_first_; ///< before faults
  std::optional<checkpoint> from_;
  byte_text text_;
  batch_maker batches_;
  token_batch tokens_;
  plan::plan plan_;
  std::optional<hosting> hosting_; ///< where stages run in other processes
  std::uint64_t furthest_ = 0;     ///< the last step that was ever finished
  int faults_in_a_row_ = 0;
  std::optional<checkpoint_dir> checkpoints_;
  std::optional<actors::pipeline> line_;
  std::vector<std::string> layers_;                       ///< of each stage
  std::vector<std::string> places_;                       ///< of each stage; empty: all here
  std::shared_ptr<const actors::model_state> last_state_; ///< after the last step
  std::optional<std::uint64_t> saved_at_;
  int skipped_in_a_row_ = 0;
  run_record record_;
};

/// "1 stage", "2 stages".
inline std::string count_of(std::int32_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

} // namespace sluice::cli
