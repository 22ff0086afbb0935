#include "cli/atomic_file.hpp"

#include <atomic>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace sluice::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view temporary_mark = ".sluice-tmp-";

/// Opens a new file beside the target, under a name that no other writer has: the process ID tells
/// processes apart, the counter the writers of one; both may meet what a killed process with the
/// same ID left behind (in a container they start anew), and then the next number is free.
int open_beside(const fs::path& target, fs::path& opened) {
  static std::atomic<unsigned> counter{0};
  int descriptor = -1;
  do {
    opened =
      target.parent_path()
      / fmt::format("{}{}{}-{}", target.filename().string(), temporary_mark, ::getpid(), counter++);
    descriptor = ::open(opened.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EEXIST);
  return descriptor;
}

/// What a user can do about the errors that are theirs to mend.
std::string_view advice(int error) {
  switch (error) {
  case ENOSPC:
  case EDQUOT:
    return "; free some space there and try again";
  case ENOENT:
    return "; does the folder exist?";
  case EACCES:
  case EPERM:
  case EROFS:
    return "; is the folder writable for you?";
  default:
    return "";
  }
}

/// The file that a path means, links followed as far as they lead.
fs::path follow_links(const fs::path& target) {
  std::error_code ignored;
  const auto followed = fs::weakly_canonical(target, ignored);
  return ignored ? fs::absolute(target) : followed;
}

/// Makes a rename in the folder survive a power cut. Some filesystems cannot sync a folder: the
/// rename has been done by then, so that is no reason to fail.
void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return;
  ::fsync(descriptor);
  ::close(descriptor);
}

} // namespace

atomic_file::atomic_file(const fs::path& target) : target_(follow_links(target)) {
  std::error_code ignored;
  const auto status = fs::status(target, ignored);
  if (fs::is_directory(status))
    fail(EISDIR, "write");
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    target_ = temporary_ = target;
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    descriptor_ = open_beside(target_, temporary_);
  }
  if (descriptor_ < 0)
    fail(errno, "create");
  if (fs::is_regular_file(status)) // a replaced file keeps who may read it, as far as we may say so
    ::fchmod(descriptor_, static_cast<::mode_t>(status.permissions()));
}

atomic_file::~atomic_file() {
  discard();
}

void atomic_file::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      fail(errno, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void atomic_file::write(std::string_view text) {
  write(std::as_bytes(std::span{text}));
}

void atomic_file::commit() {
  const bool in_place = temporary_ == target_;
  if (!in_place && ::fsync(descriptor_) != 0)
    fail(errno, "force to disk");
  const int closed = ::close(descriptor_); // network filesystems report a full disk here
  descriptor_ = -1;
  if (closed != 0)
    fail(errno, "close");
  if (in_place)
    return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0)
    fail(errno, "put in place");
  temporary_.clear();
  sync_folder(target_.parent_path());
}

std::optional<fs::path> atomic_file::target_of(const fs::path& temporary) {
  const auto name = temporary.filename().string();
  const auto mark = name.rfind(temporary_mark);
  if (mark == std::string::npos)
    return std::nullopt;
  return temporary.parent_path() / name.substr(0, mark);
}

void atomic_file::fail(int error, std::string_view doing) {
  discard();
  throw std::runtime_error{fmt::format("cannot {} {}: {}{}", doing, target_.string(),
                                       std::generic_category().message(error), advice(error))};
}

void atomic_file::discard() noexcept {
  if (descriptor_ >= 0)
    ::close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty() && temporary_ != target_)
    ::unlink(temporary_.c_str());
  temporary_.clear();
}

void write_atomically(const fs::path& target, std::string_view text) {
  atomic_file file{target};
  file.write(text);
  file.commit();
}

} // namespace sluice::cli
