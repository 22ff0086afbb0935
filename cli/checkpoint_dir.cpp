#include "cli/checkpoint_dir.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <stdexcept>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cli/atomic_file.hpp"

namespace sluice::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view prefix = "step-";
constexpr std::string_view suffix = ".safetensors";

/// The step in a checkpoint's name; nothing for any other name.
std::optional<std::int64_t> step_of(const fs::path& file) {
  const auto name = file.filename().string();
  if (!name.starts_with(prefix) || !name.ends_with(suffix)
      || name.size() <= prefix.size() + suffix.size())
    return std::nullopt;
  const auto digits =
    std::string_view{name}.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  return whole && step >= 0 ? std::optional{step} : std::nullopt;
}

/// Calls `visit` for every file in the folder; for none where there is no folder.
template <class Visitor>
void each_file(const fs::path& folder, Visitor&& visit) {
  std::error_code error;
  fs::directory_iterator entry{folder, error};
  if (error == std::errc::no_such_file_or_directory)
    return;
  for (; !error && entry != fs::directory_iterator{}; entry.increment(error))
    if (std::error_code gone; entry->is_regular_file(gone))
      visit(entry->path());
  if (error)
    throw std::runtime_error{
      fmt::format("cannot read the checkpoint folder {}: {}", folder.string(), error.message())};
}

void remove_or_say(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  if (error)
    spdlog::warn("cannot remove {}: {}", file.string(), error.message());
}

} // namespace

checkpoint_dir::checkpoint_dir(fs::path folder, std::size_t keep)
  : folder_(std::move(folder)),
    keep_(std::max<std::size_t>(keep, 1)) {}

void checkpoint_dir::prepare() {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!fs::is_directory(folder_))
    throw std::runtime_error{
      fmt::format("cannot make the checkpoint folder {}: {}; give another one with --checkpoint",
                  folder_.string(), error ? error.message() : "a file of that name is in the way")};
  if (::access(folder_.c_str(), W_OK | X_OK) != 0)
    throw std::runtime_error{
      fmt::format("cannot write in the checkpoint folder {}; give another one with --checkpoint",
                  folder_.string())};
  claim_ = std::make_unique<claim>(folder_);
  if (claim_->held())
    remove_leftovers();
}

checkpoint_dir::claim::claim(const fs::path& folder)
  : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  held_ = descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  if (held_ || errno != EWOULDBLOCK)
    return;
  ::close(descriptor_);
  throw std::runtime_error{
    fmt::format("another run is writing to the checkpoint folder {}; wait for its end, or give "
                "another one with --checkpoint",
                folder.string())};
}

checkpoint_dir::claim::~claim() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

void checkpoint_dir::remove_leftovers() const {
  each_file(folder_, [](const fs::path& file) {
    const auto target = atomic_file::target_of(file);
    if (!target || !step_of(*target))
      return;
    spdlog::info("removing {}: left by a run that was stopped while saving", file.string());
    remove_or_say(file);
  });
}

fs::path checkpoint_dir::file_for(std::int64_t step) const {
  return folder_ / fmt::format("{}{:08}{}", prefix, step, suffix);
}

std::vector<checkpoint_dir::entry> checkpoint_dir::list() const {
  std::vector<entry> found;
  each_file(folder_, [&](const fs::path& file) {
    if (const auto step = step_of(file))
      found.push_back({*step, file});
  });
  std::ranges::sort(found, {}, &entry::step);
  return found;
}

std::optional<checkpoint_dir::entry> checkpoint_dir::newest(const verify& check) const {
  each_file(folder_, [](const fs::path& file) {
    if (atomic_file::target_of(file))
      spdlog::info("ignoring {}: left by a run that was stopped while saving", file.string());
  });
  auto found = list();
  if (found.empty())
    return std::nullopt;
  std::string newest_fault;
  for (; !found.empty(); found.pop_back()) {
    try {
      check(found.back().file);
      return found.back();
    } catch (const std::exception& fault) {
      spdlog::warn("passing over a damaged checkpoint: {}", fault.what());
      if (newest_fault.empty())
        newest_fault = fault.what();
    }
  }
  throw std::runtime_error{
    fmt::format("no checkpoint in {} can be read; the newest: {}", folder_.string(), newest_fault)};
}

void checkpoint_dir::prune() const {
  auto found = list();
  const auto surplus = found.size() - std::min(found.size(), keep_);
  for (const auto& old : std::span{found}.first(surplus))
    remove_or_say(old.file);
}

} // namespace sluice::cli
