#include "cli/training.hpp"

#include <algorithm>
#include <filesystem>

#include <spdlog/spdlog.h>

#include "cli/atomic_file.hpp"
#include "cli/failure.hpp"
#include "cli/progress.hpp"
#include "cli/sampler.hpp"
#include "cli/stop_signals.hpp"
#include "cli/trace_file.hpp"
#include "cli/training_run.hpp"

namespace sluice::cli {

namespace fs = std::filesystem;

namespace {

/// Skipped steps in a row after which a run has no prospect.
constexpr int hopeless = 10;

/// What is wrong with an input or a place is the user's to mend, before anything has started.
template <class Function>
auto as_usage(Function act) {
  try {
    return act();
  } catch (const std::runtime_error& problem) {
    throw usage_error(problem.what());
  }
}

/// Where results will go is tried before the work, not after it.
void require_writable(const fs::path& file, const char* option) {
  if (file.empty() || file == "-")
    return;
  std::error_code ignored;
  const auto status = fs::status(file, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))
    return; // a pipe may be opened once only
  try {
    const atomic_file probe(file);
  } catch (const std::runtime_error& problem) {
    throw usage_error(fmt::format("{}: {}", option, problem.what()));
  }
}

std::vector<fs::path> files_of(const train_options& options) {
  return options.data.empty() ? default_text_files(SLUICE_SOURCE_DIR) : options.data;
}

} // namespace

training::training(train_options options, const CLI::App& given)
  : options_(std::move(options)),
    how_at_first_(options_.how),
    from_([&]() -> std::optional<checkpoint> {
      if (options_.resume.empty())
        return std::nullopt;
      auto found = find_checkpoint(options_.resume);
      adopt(options_.what, found.recipe, given);
      return found;
    }()),
    text_(as_usage([&] {
      return byte_text::load(files_of(options_), static_cast<std::size_t>(options_.what.length));
    })),
    batches_(options_.what),
    plan_(plan_of(options_.what, options_.how)) {
  if (from_ && from_->state->step >= options_.what.steps)
    throw usage_error(fmt::format("the checkpoint is at step {} of {}: give more --steps",
                                  from_->state->step, options_.what.steps));
  require_writable(options_.json, "--json");
  require_writable(options_.report, "--report");
  require_writable(options_.trace, "--trace");
  if (!options_.checkpoint.empty())
    open_checkpoints();
  if (options_.hosts.given())
    hosting_.emplace(options_.hosts, options_.how.stages);
}

/// Takes the folder, unless another run's checkpoints are in it: after those, "the newest" would
/// mean one run's today and another's tomorrow.
void training::open_checkpoints() {
  checkpoints_.emplace(options_.checkpoint, options_.keep);
  as_usage([&] { checkpoints_->prepare(); });
  const auto there = checkpoints_->list();
  if (there.empty())
    return;
  const auto same = [&](const fs::path& other) {
    return !options_.resume.empty()
        && fs::weakly_canonical(options_.resume) == fs::weakly_canonical(other);
  };
  if (!same(options_.checkpoint) && !same(there.back().file))
    throw usage_error(fmt::format("{} holds checkpoints of another run (the newest of step {}): "
                                  "continue it with --resume {}, or choose another folder",
                                  options_.checkpoint.string(), there.back().step,
                                  options_.checkpoint.string()));
}

void training::start() {
  if (from_) {
    if (from_->text_fingerprint != fingerprint())
      spdlog::warn("the text is not the one that the checkpoint was trained on");
    record_.step = furthest_ = from_->state->step;
    fmt::print(stderr, "continuing after step {}\n", record_.step);
  }
  try {
    start_line(hosting_ ? hosting_->all() : hosting::muster{});
    if (from_)
      line_->install(from_->state);
  } catch (const actors::pipeline_error& problem) {
    if (!goes_on_after(problem))
      throw;
    recover(problem.what());
  }
  from_.reset();
  fmt::print(stderr, "{} bytes of text to train on, {} held out; {} under {}:\n",
             text_.training_bytes(), text_.held_out_bytes(), count_of(plan_.ranks, "stage"),
             plan_.schedule);
  show_stages();
}

void training::start_line(const hosting::muster& at) {
  line_.emplace(start_pipeline(options_.what, options_.how, plan_, at));
  layers_.clear();
  for (std::int32_t rank = 0; rank < plan_.ranks; ++rank)
    layers_.push_back(layers_on(rank, plan_, line_->parts()));
  places_ = at.placement;
}

void training::show_stages() {
  for (std::size_t rank = 0; rank < layers_.size(); ++rank)
    fmt::print(stderr, "  stage {}: {}{}\n", rank, layers_[rank],
               places_.empty() ? "" : fmt::format(", {}", places_[rank]));
}

int training::run() {
  start();
  const stop_signals signals;
  try {
    steps_despite_faults();
  } catch (const actors::pipeline_error& problem) {
    rescue(problem.what(), !problem.lasting());
    throw std::runtime_error(problem.what() + memory_advice(problem.what()));
  }
  finish(stop_signals::received());
  return stop_signals::received() == 0 ? exit_code::success
                                       : exit_code::signal + stop_signals::received();
}

void training::steps() {
  const auto& what = options_.what;
  progress shown(static_cast<std::int64_t>(std::max<std::uint64_t>(1, what.steps / 20)));
  while (record_.step < what.steps && stop_signals::received() == 0) {
    text_.sample(what.seed, record_.step, static_cast<std::size_t>(what.batch_sequences()),
                 tokens_);
    note(line_->train(batches_.make(tokens_, what.micro_batch_size)));
    const double recent = record_.recent_step_seconds();
    shown.update(
      {.step = static_cast<std::int64_t>(record_.step),
       .steps = static_cast<std::int64_t>(what.steps),
       .loss = record_.last.loss,
       .tokens_per_second = static_cast<double>(what.batch_sequences() * what.length) / recent,
       .bubble = record_.last.bubble,
       .remaining =
         std::chrono::duration<double>(recent * static_cast<double>(what.steps - record_.step))});
    if (checkpoints_ && is_sound() && options_.checkpoint_every > 0
        && record_.step % options_.checkpoint_every == 0)
      save(line_->state());
  }
}

void training::note(const actors::step_report& report) {
  record_.last = report;
  ++record_.step;
  if (record_.step > furthest_)
    faults_in_a_row_ = 0;
  furthest_ = std::max(furthest_, record_.step);
  record_.step_seconds.push_back(report.seconds);
  record_.bubbles.push_back(report.bubble);
  loss_point point{.step = static_cast<std::int64_t>(record_.step),
                   .loss = report.loss,
                   .held_out = {},
                   .lr = report.learning_rate,
                   .gradient_norm = report.gradient_norm,
                   .seconds = report.seconds};
  const bool last = record_.step == options_.what.steps;
  if (last || (options_.evaluate_every > 0 && record_.step % options_.evaluate_every == 0))
    point.held_out = held_out_loss();
  record_.curve.add(point);
  skipped_in_a_row_ = report.skipped ? skipped_in_a_row_ + 1 : 0;
  if (report.skipped)
    record_.faults.push_back(
      fmt::format("step {}: a gradient was not finite, no weight changed", record_.step));
  if (skipped_in_a_row_ == hopeless || (report.skipped && last))
    throw actors::pipeline_error(
      fmt::format("step {}: the loss is {}, and no weight has changed for {} step{}; try a smaller "
                  "--lr, a longer --warm-up or a smaller --clip",
                  record_.step, report.loss, skipped_in_a_row_, skipped_in_a_row_ == 1 ? "" : "s"));
}

/// The mean over the first held-out sequences; nothing if the text is too short to have any.
double training::held_out_loss() {
  const auto sequences = std::min(options_.evaluate_sequences, text_.held_out_sequences());
  if (sequences == 0)
    return std::nan("");
  token_batch held_out;
  text_.held_out(0, sequences, held_out);
  return line_->evaluate(batches_.make(held_out, options_.what.micro_batch_size)).loss;
}

void training::save(std::shared_ptr<const actors::model_state> state) {
  if (saved_at_ == record_.step)
    return;
  save_checkpoint(checkpoints_->file_for(static_cast<std::int64_t>(record_.step)),
                  {std::move(state), to_json(options_.what), fingerprint()});
  saved_at_ = record_.step;
  checkpoints_->prune();
}

void training::write_files(const nlohmann::json& summary) const {
  if (!options_.report.empty())
    write_curve(record_.curve, options_.report);
  if (!options_.trace.empty())
    write_trace(options_.trace, plan_, record_.last);
  if (options_.json == "-")
    fmt::print("{}\n", summary.dump(2));
  else if (!options_.json.empty())
    write_atomically(options_.json, summary.dump(2) + "\n");
}

/// After a step has failed. Where the pipeline itself is sound, the weights are those from before
/// it, and worth keeping.
void training::rescue(const std::string& fault, bool weights_are_sound) {
  record_.faults.push_back(fault);
  std::string digest;
  const auto attempt = [](const char* doing, auto act) {
    try {
      act();
    } catch (const std::exception& problem) {
      spdlog::warn("after the failure below, {} failed too: {}", doing, problem.what());
    }
  };
  if (weights_are_sound && line_) {
    if (checkpoints_ && is_sound() && record_.step > 0)
      attempt("saving a checkpoint", [&] { save(line_->state()); });
    attempt("reading the weights", [&] { digest = weights_digest(*line_->state()); });
  }
  attempt("writing the results",
          [&] { write_files(train_summary(record_, options_.what, digest)); });
}

void training::finish(int signal) {
  const bool keeps = checkpoints_ && is_sound();
  if (keeps)
    save(last_state_);
  const auto summary = train_summary(record_, options_.what, weights_digest(*last_state_));
  const bool for_people = options_.json != "-";
  if (for_people && !record_.curve.points().empty())
    fmt::print("{}", train_text(record_, summary, layers_));
  write_files(summary);
  if (signal != 0) {
    spdlog::warn("stopped by signal {} after step {}{}", signal, record_.step,
                 keeps          ? ", checkpoint saved"
                 : checkpoints_ ? ", nothing saved: the loss is no number"
                                : ", nothing saved: there is no --checkpoint");
  } else if (for_people && options_.sample_bytes > 0) {
    sampler sample(options_.what, options_.what.seed, 0.7);
    fmt::print("--- sample ---\n{}\n",
               printable(sample.continue_text(*line_, "The ", options_.sample_bytes)));
  }
}

int train(train_options options, const CLI::App& given) {
  return training(std::move(options), given).run();
}

} // namespace sluice::cli
