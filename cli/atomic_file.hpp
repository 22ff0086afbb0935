#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

namespace sluice::cli {

/// A file that appears under its name complete or not at all: written beside it under a temporary
/// name, forced to disk, then renamed. Until commit() succeeds the old file stays as it was.
///
/// A symbolic link stays one: the file it points to is replaced. What is no regular file (a pipe,
/// /dev/stdout) cannot be renamed over and is written to directly.
/// Errors: std::runtime_error that names the path, what was tried, why it failed and what helps;
/// the temporary file is gone by then.
class atomic_file {
public:
  explicit atomic_file(const std::filesystem::path& target);
  ~atomic_file();

  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// The file being written. A writer that wants a path may open it, truncate it and fill it
  /// itself, in place of write(); it closes it before commit().
  const std::filesystem::path& temporary() const noexcept { return temporary_; }

  /// Forces everything to disk and puts the file in place, once.
  void commit();

  /// What a temporary file would have become; nothing for any other file. Tells what a killed
  /// process left behind from the rest.
  static std::optional<std::filesystem::path> target_of(const std::filesystem::path& temporary);

private:
  [[noreturn]] void fail(int error, std::string_view doing);
  void discard() noexcept;

  std::filesystem::path target_;
  std::filesystem::path temporary_; ///< target_ itself when that is no regular file
  int descriptor_ = -1;
};

/// The whole of atomic_file in one call.
void write_atomically(const std::filesystem::path& target, std::string_view text);

} // namespace sluice::cli
