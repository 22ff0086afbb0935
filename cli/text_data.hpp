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

/// A text as bytes: nine tenths to train on, a tenth held out.
///
/// The text is cut into equal stretches, as many as leave each a held-out tenth of four sequences
/// or more, and each stretch's end is held out: so both parts have the same kinds of text where
/// files of many kinds are joined.
///
///     |-- training --|held|-- training --|held|-- training --|held|
///
/// At least one sequence is held out where the text is two sequences long or more, and nothing
/// where it is shorter.
class byte_text {
public:
  /// Reads the files and joins them in the given order. `length`: bytes of one training sequence.
  /// Errors: std::runtime_error that names the file and what to do, for one that is missing, empty,
  /// a folder or unreadable, and for a text shorter than one sequence.
  static byte_text load(std::span<const std::filesystem::path> files, std::size_t length);

  /// The same from memory; `origin` is how messages call it.
  byte_text(std::string text, std::size_t length, std::string_view origin = "the text");

  std::size_t length() const noexcept { return length_; }
  std::size_t training_bytes() const noexcept { return text_.size() - held_out_bytes(); }
  std::size_t held_out_bytes() const noexcept { return stretches_ * held_bytes_; }

  /// Tells texts apart, so that a resumed run can see whether it continues with the same one.
  std::uint64_t fingerprint() const noexcept;

  /// Fills the training batch of a step, in the memory that the batch has. Where sample i starts
  /// depends on (seed, step, i) alone, so that a resumed run continues exactly, however a step's
  /// samples are cut into micro-batches.
  void sample(std::uint64_t seed, std::uint64_t step, std::size_t samples,
              token_batch& batch) const;

  /// How many whole sequences the held-out parts have, side by side.
  std::size_t held_out_sequences() const noexcept;

  /// Fills the batch with the held-out sequences from number `first` on: `samples` of them, fewer
  /// at the end. They are numbered across the stretches, so that the first few are from all over
  /// the text.
  void held_out(std::size_t first, std::size_t samples, token_batch& batch) const;

private:
  void clear(token_batch& batch, std::size_t samples) const;
  void append(token_batch& batch, std::size_t start) const;

  /// Training starts of each stretch but the last, which has a few more.
  std::size_t starts_per_stretch() const noexcept { return stretch_bytes_ - held_bytes_ - length_; }

  /// Where a stretch's held-out part begins.
  std::size_t held_out_begin(std::size_t stretch) const noexcept;

  std::string text_;
  std::size_t length_;
  std::size_t stretches_ = 1;
  std::size_t stretch_bytes_; ///< the last one has what remains
  std::size_t held_bytes_;    ///< of each stretch
};

/// The text to train on when none is named: the licences that a Debian machine has, each content
/// once, or else the project's own README and docs/*.md.
/// Errors: std::runtime_error when there is neither.
std::vector<std::filesystem::path>
default_text_files(const std::filesystem::path& project,
                   const std::filesystem::path& licences = "/usr/share/common-licenses");

} // namespace sluice::cli
