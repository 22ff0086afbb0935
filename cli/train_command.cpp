#include "cli/train_command.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "actors/emulation.hpp"
#include "cli/atomic_file.hpp"
#include "cli/checkpoint.hpp"
#include "cli/checkpoint_dir.hpp"
#include "cli/emulated_run.hpp"
#include "cli/failure.hpp"
#include "cli/loss_curve.hpp"
#include "cli/progress.hpp"
#include "cli/proposal.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"
#include "cli/text_data.hpp"
#include "cli/train_options.hpp"

namespace sluice::cli {

namespace {

using seconds = std::chrono::duration<double>;

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// One `sluice train`, from the options to the report.
class training {
public:
  training(train_options options, const CLI::App& given);

  int run();

private:
  void resume_if_asked(const CLI::App& given);
  void note(const actors::step_report& report);
  double held_out_loss();
  void save();
  void show(const actors::step_report& report);
  nlohmann::json summary();
  void finish(int signal);

  train_options options_;
  std::optional<checkpoint> from_;
  byte_text text_;
  batch_maker batches_;
  token_batch tokens_;
  std::optional<checkpoint_dir> checkpoints_;
  std::optional<actors::pipeline> line_;

  std::uint64_t step_ = 0;
  std::uint64_t saved_at_ = 0;
  loss_curve curve_;
  std::vector<double> step_seconds_;
  std::vector<double> bubbles_;
  std::vector<std::string> faults_;
  actors::step_report last_;
};

std::vector<std::filesystem::path> files_of(const train_options& options) {
  return options.data.empty() ? default_text_files(SLUICE_SOURCE_DIR) : options.data;
}

byte_text load_text(const train_options& options) {
  try {
    return byte_text::load(files_of(options), static_cast<std::size_t>(options.what.length));
  } catch (const std::runtime_error& problem) {
    throw usage_error(problem.what());
  }
}

training::training(train_options options, const CLI::App& given)
  : options_(std::move(options)),
    from_([&]() -> std::optional<checkpoint> {
      if (options_.resume.empty())
        return std::nullopt;
      auto found = find_checkpoint(options_.resume);
      adopt(options_.what, found.recipe, given);
      return found;
    }()),
    text_(load_text(options_)),
    batches_(options_.what) {
  if (!options_.checkpoint.empty()) {
    checkpoints_.emplace(options_.checkpoint, options_.keep);
    checkpoints_->prepare();
    const bool continues
      = !options_.resume.empty()
        && std::filesystem::weakly_canonical(options_.resume)
             == std::filesystem::weakly_canonical(options_.checkpoint);
    if (!continues && !checkpoints_->list().empty())
      throw usage_error(fmt::format("{} holds checkpoints of another run (the newest of step {}): "
                                    "continue it with --resume {}, or choose another folder",
                                    options_.checkpoint.string(), checkpoints_->list().back().step,
                                    options_.checkpoint.string()));
  }
  if (from_ && from_->state->step >= options_.what.steps)
    throw usage_error(fmt::format("the checkpoint is at step {} of {}: give more --steps",
                                  from_->state->step, options_.what.steps));
}

int training::run() {
  const auto& what = options_.what;
  text_.sample(what.seed, 0, static_cast<std::size_t>(what.micro_batch_size), tokens_);
  line_.emplace(start_pipeline(what, options_.how,
                               batches_.make(tokens_, what.micro_batch_size).front()));
  if (from_) {
    if (from_->text_fingerprint != fmt::format("{:016x}", text_.fingerprint()))
      spdlog::warn("the text is not the one that the checkpoint was trained on");
    line_->install(from_->state);
    step_ = saved_at_ = from_->state->step;
    from_.reset();
  }
  fmt::print(stderr, "{} bytes of text, {} held out; {} stages:\n", text_.training_bytes(),
             text_.held_out_bytes(), options_.how.stages);
  for (std::size_t part = 0; part < line_->parts().size(); ++part)
    fmt::print(stderr, "  part {}: {}\n", part, fmt::join(line_->parts()[part], " "));

  const stop_signals signals;
  progress shown(static_cast<std::int64_t>(std::max<std::uint64_t>(1, what.steps / 20)));
  while (step_ < what.steps && stop_signals::received() == 0) {
    text_.sample(what.seed, step_, static_cast<std::size_t>(what.batch_sequences()), tokens_);
    note(line_->train(batches_.make(tokens_, what.micro_batch_size)));
    const double recent = median({step_seconds_.end()
                                    - static_cast<std::ptrdiff_t>(
                                      std::min<std::size_t>(step_seconds_.size(), 20)),
                                  step_seconds_.end()});
    shown.update({.step = static_cast<std::int64_t>(step_),
                  .steps = static_cast<std::int64_t>(what.steps),
                  .loss = last_.loss,
                  .tokens_per_second
                  = static_cast<double>(what.batch_sequences() * what.length) / recent,
                  .bubble = last_.bubble,
                  .remaining = seconds(recent * static_cast<double>(what.steps - step_))});
    if (checkpoints_ && options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0)
      save();
  }
  shown.finish();
  finish(stop_signals::received());
  return stop_signals::received() == 0 ? exit_code::success
                                       : exit_code::signal + stop_signals::received();
}

void training::note(const actors::step_report& report) {
  last_ = report;
  ++step_;
  step_seconds_.push_back(report.seconds);
  bubbles_.push_back(report.bubble);
  if (report.skipped)
    faults_.push_back(fmt::format("step {}: a gradient was not finite, no weight changed", step_));
  loss_point point{.step = static_cast<std::int64_t>(step_),
                   .loss = report.loss,
                   .held_out = {},
                   .lr = report.learning_rate,
                   .gradient_norm = report.gradient_norm,
                   .seconds = report.seconds};
  const bool last = step_ == options_.what.steps;
  if (last || (options_.evaluate_every > 0 && step_ % options_.evaluate_every == 0))
    point.held_out = held_out_loss();
  curve_.add(point);
}

/// The mean over the first held-out sequences; NaN if the text is too short to have any.
double training::held_out_loss() {
  const auto sequences = std::min(options_.evaluate_sequences, text_.held_out_sequences());
  if (sequences == 0)
    return std::nan("");
  token_batch held_out;
  text_.held_out(0, sequences, held_out);
  return line_->evaluate(batches_.make(held_out, options_.what.micro_batch_size)).loss;
}

void training::save() {
  if (saved_at_ == step_)
    return;
  save_checkpoint(checkpoints_->file_for(static_cast<std::int64_t>(step_)),
                  {line_->state(), to_json(options_.what),
                   fmt::format("{:016x}", text_.fingerprint())});
  saved_at_ = step_;
  checkpoints_->prune();
}

/// The shares of the stages in the last step.
nlohmann::json training::summary() {
  const auto& points = curve_.points();
  const auto typical = median(step_seconds_);
  nlohmann::json stages = nlohmann::json::array();
  for (const auto& stage : last_.stages)
    stages.push_back({{"busy", 1.0 - stage.bubble},
                      {"bubble", stage.bubble},
                      {"peak_activations", stage.memory.peak_activations},
                      {"peak_activation_bytes", stage.memory.peak_activation_bytes},
                      {"peak_transfer_bytes", stage.memory.peak_transfer_bytes},
                      {"peak_bytes", stage.memory.peak_bytes}});
  const double tokens
    = static_cast<double>(options_.what.batch_sequences() * options_.what.length);
  nlohmann::json result{{"steps", step_},
                        {"tokens_per_second", typical > 0 ? tokens / typical : 0.0},
                        {"seconds_per_step", typical},
                        {"bubble", median(bubbles_)},
                        {"stages", stages},
                        {"weights_sha256", weights_digest(*line_->state())},
                        {"faults", faults_}};
  result["loss_first"] = points.empty() ? nlohmann::json() : nlohmann::json(points.front().loss);
  result["loss_last"] = points.empty() ? nlohmann::json() : nlohmann::json(points.back().loss);
  result["loss_held_out"] = points.empty() || !points.back().held_out
                              ? nlohmann::json()
                              : nlohmann::json(*points.back().held_out);
  return result;
}

void training::show(const actors::step_report& report) {
  std::vector<stage_row> rows;
  for (const auto& stage : report.stages) {
    const auto& layers = line_->parts().at(static_cast<std::size_t>(stage.rank));
    rows.push_back({.stage = static_cast<std::size_t>(stage.rank),
                    .layers = layers.size() == 1 ? layers.front()
                                                 : layers.front() + " to " + layers.back(),
                    .busy = 1.0 - stage.bubble,
                    .bubble = stage.bubble,
                    .peak_activations = static_cast<std::size_t>(stage.memory.peak_activations),
                    .peak_activation_bytes = stage.memory.peak_activation_bytes,
                    .peak_bytes = stage.memory.peak_bytes});
  }
  fmt::print("{}\n", stage_table(rows));
}

void training::finish(int signal) {
  if (checkpoints_)
    save();
  const bool json_to_output = options_.json == "-";
  const auto summary = this->summary();
  if (!json_to_output && !curve_.points().empty()) {
    show(last_);
    const auto& points = curve_.points();
    fmt::print("loss {:.4f} -> {:.4f} in {} steps", points.front().loss, points.back().loss,
               points.size());
    if (points.back().held_out)
      fmt::print(", {:.4f} on held-out text", *points.back().held_out);
    fmt::print("\n{:.0f} tokens/s, {:.4f} s a step (median), bubble {:.1f}%\nweights {}\n",
               summary["tokens_per_second"].get<double>(),
               summary["seconds_per_step"].get<double>(), 100 * summary["bubble"].get<double>(),
               summary["weights_sha256"].get<std::string>());
  }
  if (!options_.report.empty()) {
    curve_.write_csv(options_.report);
    auto picture = options_.report;
    curve_.write_svg(picture.replace_extension(".svg"), "Loss");
  }
  if (json_to_output)
    fmt::print("{}\n", summary.dump(2));
  else if (!options_.json.empty())
    write_atomically(options_.json, summary.dump(2) + "\n");
  if (signal != 0) {
    spdlog::warn("stopped by signal {} after step {}{}", signal, step_,
                 checkpoints_ ? ", checkpoint saved" : "");
  } else if (!json_to_output && options_.sample_bytes > 0) {
    sampler sample(options_.what, options_.what.seed, 0.7);
    fmt::print("--- sample ---\n{}\n",
               printable(sample.continue_text(*line_, "The ", options_.sample_bytes)));
  }
}

} // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<train_options>();
  auto* train = app.add_subcommand("train", "train a network through a pipeline of stages");
  train->footer("Example:\n  sluice train --data book.txt --stages 4 --schedule 1f1b --steps 500 "
                "--checkpoint run");
  train->option_defaults()->always_capture_default();
  train->add_option("--data", options->data, "files of text, joined [the machine's licences]");
  add_recipe_options(*train, options->what);
  add_execution_options(*train, options->how);
  add_proposal_options(*train, options->how);
  train->add_option("--checkpoint", options->checkpoint, "folder for checkpoints [none]");
  train->add_option("--checkpoint-every", options->checkpoint_every, "steps between checkpoints");
  train->add_option("--keep", options->keep, "how many checkpoints stay")
    ->check(CLI::PositiveNumber);
  train->add_option("--resume", options->resume, "checkpoint or folder of them to continue [none]");
  train->add_option("--report", options->report, "loss curve: CSV, and an SVG beside it [none]");
  train->add_option("--json", options->json, "results as JSON; - for standard output [none]");
  train->add_option("--evaluate-every", options->evaluate_every,
                    "steps between looks at the held-out text; 0: at the end only");
  train->add_option("--evaluate-sequences", options->evaluate_sequences,
                    "held-out sequences looked at");
  train->add_option("--sample", options->sample_bytes, "bytes of sample text at the end");
  train->callback([options, train, &exit_code] {
    exit_code = actors::is_emulated(options->how.device) ? run_emulated(*options, *train)
                                                         : training(*options, *train).run();
  });
}

} // namespace sluice::cli
