#include "cli/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <fmt/format.h>

namespace sluice::cli {

namespace {

/// How many bytes the UTF-8 character that starts a text has; 0 where none starts.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t size = byte(0) < 0x80 ? 1
                         : byte(0) < 0xC2 ? 0 // the middle of one, or a longer way to write ASCII
                         : byte(0) < 0xE0 ? 2
                         : byte(0) < 0xF0 ? 3
                         : byte(0) < 0xF5 ? 4
                                          : 0;
  if (size > text.size())
    return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xC0) != 0x80)
      return 0;
  // Three and four bytes: too long a way to write something, surrogates, beyond the last character.
  const bool wrong = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xED && byte(1) > 0x9F)
                  || (byte(0) == 0xF0 && byte(1) < 0x90) || (byte(0) == 0xF4 && byte(1) > 0x8F);
  return size > 1 && wrong ? 0 : size;
}

} // namespace

sampler::sampler(const recipe& what, std::uint64_t seed, double temperature)
  : gpt_(what.model == "gpt"),
    length_(static_cast<std::size_t>(what.length)),
    temperature_(temperature),
    batches_(what),
    seed_(seed) {}

std::string sampler::continue_text(actors::pipeline& line, std::string text, std::size_t tokens) {
  if (text.empty())
    text = "\n";
  for (std::size_t i = 0; i < tokens; ++i) {
    const auto outputs = line.predict(batches_.prompt(text));
    const auto logits = outputs.at(0).at(0).span<float>();
    const auto classes = static_cast<std::size_t>(outputs[0][0].shape()[-1]);
    const auto row = gpt_ ? std::min(text.size(), length_) - 1 : 0;
    text.push_back(static_cast<char>(pick(logits.subspan(row * classes, classes))));
  }
  return text;
}

std::int32_t sampler::pick(std::span<const float> logits) {
  const auto likeliest = std::ranges::max_element(logits);
  if (temperature_ <= 0)
    return static_cast<std::int32_t>(likeliest - logits.begin());
  std::vector<double> weights(logits.size());
  std::ranges::transform(logits, weights.begin(), [&](float logit) {
    return std::exp((static_cast<double>(logit) - *likeliest) / temperature_);
  });
  std::mt19937_64 random(seed_ * 0x9E3779B97F4A7C15u + drawn_++);
  return std::discrete_distribution<std::int32_t>(weights.begin(), weights.end())(random);
}

std::string printable(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const auto first = static_cast<unsigned char>(bytes.front());
    const bool is_control = (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F;
    const auto size = is_control ? 0 : character_bytes(bytes);
    text += size > 0 ? std::string(bytes.substr(0, size)) : fmt::format("\\x{:02x}", first);
    bytes.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return text;
}

} // namespace sluice::cli
