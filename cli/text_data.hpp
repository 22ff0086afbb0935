#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// Sequences of byte values for one step, and the byte that follows each.
/// Shapes: both [samples x length], row by row.
struct token_batch {
  std::size_t samples = 0;
  std::size_t length = 0;
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
};

/// A text as bytes, cut in two: the first nine tenths to train on, the rest held out.
///
/// The held-out part has at least one sequence where the text is two sequences long or more, and
/// is empty where it is shorter.
class byte_text {
public:
  /// Reads the files and joins them in the given order. `length`: bytes of one training sequence.
  /// Errors: std::runtime_error that names the file and what to do, for one that is missing, empty,
  /// a folder or unreadable, and for a text shorter than one sequence.
  static byte_text load(std::span<const std::filesystem::path> files, std::size_t length);

  /// The same from memory; `origin` is how messages call it.
  byte_text(std::string text, std::size_t length, std::string_view origin = "the text");

  std::size_t length() const noexcept { return length_; }
  std::size_t training_bytes() const noexcept { return training_bytes_; }
  std::size_t held_out_bytes() const noexcept { return text_.size() - training_bytes_; }

  /// Tells texts apart, so that a resumed run can see whether it continues with the same one.
  std::uint64_t fingerprint() const noexcept;

  /// Fills the training batch of a step, in the memory that the batch has. Where sample i starts
  /// depends on (seed, step, i) alone, so that a resumed run continues exactly, however a step's
  /// samples are cut into micro-batches.
  void sample(std::uint64_t seed, std::uint64_t step, std::size_t samples,
              token_batch& batch) const;

  /// How many whole sequences the held-out part has, side by side.
  std::size_t held_out_sequences() const noexcept;

  /// Fills the batch with the held-out sequences from number `first` on, in order: `samples` of
  /// them, fewer at the end.
  void held_out(std::size_t first, std::size_t samples, token_batch& batch) const;

private:
  void clear(token_batch& batch, std::size_t samples) const;
  void append(token_batch& batch, std::size_t start) const;

  std::string text_;
  std::size_t length_;
  std::size_t training_bytes_;
};

/// The text to train on when none is named: the licences that a Debian machine has, each content
/// once, or else the project's own README and docs/*.md.
/// Errors: std::runtime_error when there is neither.
std::vector<std::filesystem::path>
default_text_files(const std::filesystem::path& project,
                   const std::filesystem::path& licences = "/usr/share/common-licenses");

} // namespace sluice::cli
