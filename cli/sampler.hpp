#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "actors/pipeline.hpp"
#include "cli/model.hpp"
#include "cli/train_options.hpp"

namespace sluice::cli {

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

} // namespace sluice::cli
