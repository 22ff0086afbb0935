#pragma once

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/pipeline.hpp"
#include "cli/checkpoint.hpp"
#include "cli/model.hpp"
#include "cli/train_options.hpp"

namespace sluice::cli {

/// The plan that the options ask for. Errors: usage_error, plan::plan_error.
plan::plan plan_of(const recipe& what, const execution& how);

/// Starts the pipeline of a recipe: the plan, the cut into stages (by hand or by what the layers
/// cost on `sample`), devices and limits.
/// Errors: usage_error for options that do not go together.
actors::pipeline start_pipeline(const recipe& what, const execution& how,
                                const actors::batch_part& sample);

/// The newest sound checkpoint of a folder, or the checkpoint that a file is.
/// Errors: usage_error when there is none.
checkpoint find_checkpoint(const std::filesystem::path& place);

/// Continues `text` by `tokens` bytes, sampled forward-only through the pipeline, with the
/// logits divided by `temperature` (0: always the likeliest byte).
class sampler {
public:
  sampler(const recipe& what, std::uint64_t seed, double temperature);
  std::string continue_text(actors::pipeline& line, std::string text, std::size_t tokens);

private:
  std::int32_t pick(std::span<const float> logits);

  bool gpt_;
  std::size_t length_;
  double temperature_;
  batch_maker batches_;
  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;
};

/// Text for a terminal: control and invalid bytes become visible stand-ins.
std::string printable(std::string_view bytes);

/// Remembers SIGINT and SIGTERM while it lives, so that a run can end between two steps. A second
/// signal of a kind ends the process at once.
class stop_signals {
public:
  stop_signals();
  ~stop_signals();
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;

  /// The signal that came, or 0.
  static int received() noexcept;

private:
  struct sigaction before_int_ {};
  struct sigaction before_term_ {};
};

} // namespace sluice::cli
