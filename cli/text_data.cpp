#include "cli/text_data.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/fingerprint.hpp"

namespace sluice::cli {

namespace fs = std::filesystem;

namespace {

/// A number below `bound`, from the counters alone. The high half of the product rather than a
/// remainder: the bias is bound / 2^64.
std::size_t draw(std::uint64_t seed, std::uint64_t step, std::uint64_t sample, std::size_t bound) {
  const auto bits = mix(mix(mix(seed) ^ step) ^ sample);
  __extension__ using wide = unsigned __int128;
  return static_cast<std::size_t>((static_cast<wide>(bits) * bound) >> 64);
}

std::string read_file(const fs::path& file) {
  std::error_code error;
  const auto status = fs::status(file, error);
  if (!fs::exists(status))
    throw std::runtime_error{fmt::format(
      "cannot find the text {}; give the path of a text file with --data", file.string())};
  if (fs::is_directory(status))
    throw std::runtime_error{
      fmt::format("{} is a folder; name the text files in it, as in --data {}", file.string(),
                  (file / "*.txt").string())};
  if (!fs::is_regular_file(status) && !fs::is_fifo(status)) // /dev/zero has no end
    throw std::runtime_error{
      fmt::format("{} is not a regular file; give a text file with --data", file.string())};
  errno = 0;
  std::ifstream in{file, std::ios::binary};
  std::string text;
  std::array<char, 1 << 16> piece;
  while (in.read(piece.data(), piece.size()) || in.gcount() > 0)
    text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
  if (!in.is_open() || in.bad())
    throw std::runtime_error{
      fmt::format("cannot read {}: {}", file.string(), std::generic_category().message(errno))};
  if (text.empty())
    throw std::runtime_error{
      fmt::format("{} is empty; give a file with text in it with --data", file.string())};
  return text;
}

/// "a.txt", or "a.txt and 2 more files".
std::string describe(std::span<const fs::path> files) {
  if (files.size() == 1)
    return files[0].string();
  return fmt::format("{} and {} more file{}", files[0].string(), files.size() - 1,
                     files.size() == 2 ? "" : "s");
}

/// Sequences of each stretch that are held out, at least, where the text is long enough.
constexpr std::size_t held_sequences = 4;

std::size_t stretches_of(std::size_t bytes, std::size_t length) {
  return std::max<std::size_t>(1, bytes / (10 * (held_sequences * length + 1)));
}

std::size_t size_to_hold_out(std::size_t stretch_bytes, std::size_t length) {
  const auto sequence = length + 1; // the last target lies one past the last input
  return stretch_bytes < 2 * sequence ? 0 : std::max(stretch_bytes / 10, sequence);
}

/// The regular files of a folder with one of the endings (all where there is none), by name.
std::vector<fs::path> regular_files(const fs::path& folder, std::string_view extension = "") {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry{folder, error}, end; !error && entry != end;
       entry.increment(error)) {
    const bool wanted = extension.empty() || entry->path().extension() == extension;
    if (wanted && !entry->is_symlink() && entry->is_regular_file() && entry->file_size() > 0)
      found.push_back(entry->path());
  }
  std::ranges::sort(found);
  return found;
}

} // namespace

byte_text byte_text::load(std::span<const fs::path> files, std::size_t length) {
  if (files.empty())
    throw std::runtime_error{"no text to train on; name a file with --data"};
  std::string text;
  for (const auto& file : files)
    text += read_file(file);
  return {std::move(text), length, describe(files)};
}

byte_text::byte_text(std::string text, std::size_t length, std::string_view origin)
  : text_(std::move(text)),
    length_(length),
    stretches_(stretches_of(text_.size(), length)),
    stretch_bytes_(text_.size() / stretches_),
    held_bytes_(size_to_hold_out(stretch_bytes_, length)) {
  if (length == 0)
    throw std::runtime_error{"a sequence needs at least one byte; give a larger --length"};
  if (text_.size() < length + 1)
    throw std::runtime_error{
      fmt::format("{} has {} bytes, but one sequence of length {} needs {}; give a longer text "
                  "with --data or a smaller --length",
                  origin, text_.size(), length, length + 1)};
}

std::uint64_t byte_text::fingerprint() const noexcept {
  return cli::fingerprint(text_);
}

void byte_text::sample(std::uint64_t seed, std::uint64_t step, std::size_t samples,
                       token_batch& batch) const {
  clear(batch, samples);
  const auto each = starts_per_stretch(); // a start needs `length` inputs and one more
  const auto all = stretches_ * each + text_.size() % stretch_bytes_;
  for (std::size_t i = 0; i < samples; ++i) {
    const auto drawn = draw(seed, step, i, all);
    const auto stretch = std::min(drawn / each, stretches_ - 1);
    append(batch, drawn + stretch * (stretch_bytes_ - each));
  }
}

std::size_t byte_text::held_out_begin(std::size_t stretch) const noexcept {
  const auto end = stretch + 1 == stretches_ ? text_.size() : (stretch + 1) * stretch_bytes_;
  return end - held_bytes_;
}

std::size_t byte_text::held_out_sequences() const noexcept {
  return held_bytes_ == 0 ? 0 : stretches_ * ((held_bytes_ - 1) / length_);
}

void byte_text::held_out(std::size_t first, std::size_t samples, token_batch& batch) const {
  const auto all = held_out_sequences();
  first = std::min(first, all);
  clear(batch, std::min(samples, all - first));
  for (std::size_t i = first; i < first + batch.samples; ++i)
    append(batch, held_out_begin(i % stretches_) + i / stretches_ * length_);
}

void byte_text::clear(token_batch& batch, std::size_t samples) const {
  batch.samples = samples;
  batch.length = length_;
  for (auto* values : {&batch.inputs, &batch.targets}) {
    values->clear();
    values->reserve(samples * length_);
  }
}

void byte_text::append(token_batch& batch, std::size_t start) const {
  const auto byte_value = [](char c) { return std::int32_t{static_cast<unsigned char>(c)}; };
  const auto text = std::string_view{text_};
  std::ranges::transform(text.substr(start, length_), std::back_inserter(batch.inputs), byte_value);
  std::ranges::transform(text.substr(start + 1, length_), std::back_inserter(batch.targets),
                         byte_value);
}

std::vector<fs::path> default_text_files(const fs::path& project, const fs::path& licences) {
  std::vector<fs::path> files;
  std::set<std::string> contents;
  for (const auto& file : regular_files(licences))
    if (contents.insert(read_file(file)).second)
      files.push_back(file);
  if (!files.empty())
    return files;
  files = regular_files(project / "docs", ".md");
  if (std::error_code error; fs::is_regular_file(project / "README.md", error))
    files.insert(files.begin(), project / "README.md");
  if (files.empty())
    throw std::runtime_error{
      fmt::format("no default text: neither {} nor {} has any; name a file with --data",
                  licences.string(), (project / "docs").string())};
  return files;
}

} // namespace sluice::cli
