#include "cli/atomic_file.hpp"

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "tests/support/temporary_folder.hpp"

using namespace sluice::cli;
using sluice::test::content_of;
using sluice::test::temporary_folder;

namespace fs = std::filesystem;

namespace {

/// The message of the exception that `work` ends with; empty when it ends well.
std::string message_of(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
    std::distance(fs::directory_iterator{folder}, fs::directory_iterator{}));
}

/// Runs `work` in a child process, whose limits and mounts are its own; its answer, and the exit
/// code by which the child says that it could not be set up.
constexpr int not_permitted = 77;
int in_child(const std::function<int()>& work) {
  const auto child = ::fork();
  if (child == 0)
    ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

TEST_CASE("a file appears whole when it is committed, and nothing stays beside it") {
  const temporary_folder folder;
  const auto file = folder.path() / "weights";
  atomic_file out{file};
  out.write("first ");
  out.write("second");
  CHECK_FALSE(fs::exists(file));
  out.commit();
  CHECK(content_of(file) == "first second");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a file that is not committed leaves the old one as it was") {
  const temporary_folder folder;
  const auto file = folder.write("weights", "old");
  {
    atomic_file out{file};
    out.write("new");
  }
  CHECK(content_of(file) == "old");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a writer may fill the temporary file by its path") {
  const temporary_folder folder;
  const auto file = folder.path() / "weights";
  atomic_file out{file};
  std::ofstream{out.temporary(), std::ios::binary | std::ios::trunc} << "by path";
  out.commit();
  CHECK(content_of(file) == "by path");
}

TEST_CASE("a temporary file's name tells which file it was to become") {
  const temporary_folder folder;
  const auto file = folder.path() / "step-00000001.safetensors";
  const atomic_file out{file};
  CHECK(atomic_file::target_of(out.temporary()) == fs::weakly_canonical(file));
  CHECK_FALSE(atomic_file::target_of(file).has_value());
}

TEST_CASE("what a killed process with the same number left is no obstacle") {
  const temporary_folder folder;
  const auto file = folder.path() / "weights";
  fs::path next;
  {
    const atomic_file probe{file};
    next = probe.temporary();
  }
  auto name = next.string();
  const auto counter = std::stoul(name.substr(name.rfind('-') + 1)) + 1;
  const auto leftover = name.substr(0, name.rfind('-') + 1) + std::to_string(counter);
  std::ofstream{leftover} << "left behind";
  write_atomically(file, "new");
  CHECK(content_of(file) == "new");
  CHECK(content_of(leftover) == "left behind");
}

TEST_CASE("a symbolic link stays, and the file behind it is replaced") {
  const temporary_folder folder;
  const auto file = folder.write("behind", "old");
  fs::create_symlink("behind", folder.path() / "link");
  write_atomically(folder.path() / "link", "new");
  CHECK(fs::is_symlink(folder.path() / "link"));
  CHECK(content_of(file) == "new");
}

TEST_CASE("a replaced file keeps its permissions") {
  const temporary_folder folder;
  const auto file = folder.write("private", "old");
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  write_atomically(file, "new");
  CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("a device is written to, never renamed over") {
  write_atomically("/dev/null", "nothing");
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("a message names the file, the reason and what helps") {
  const temporary_folder folder;
  const auto missing = folder.path() / "nowhere" / "weights";
  auto said = message_of([&] { write_atomically(missing, "x"); });
  CHECK(contains(said, missing.string()));
  CHECK(contains(said, "No such file or directory; does the folder exist?"));

  said = message_of([&] { write_atomically(folder.path(), "x"); });
  CHECK(contains(said, folder.path().string()));
  CHECK(contains(said, "Is a directory"));

  said = message_of([] { write_atomically("/dev/full", "x"); });
  CHECK(said
        == "cannot write /dev/full: No space left on device; free some space there and try again");
}

TEST_CASE("a write that fails half-way leaves the old file and no temporary one") {
  const temporary_folder folder;
  const auto file = folder.write("weights", "old");
  const auto result = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN); // else the limit kills
    const ::rlimit small{.rlim_cur = 4096, .rlim_max = 4096};
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0)
      return not_permitted;
    const auto said = message_of([&] { write_atomically(file, std::string(10'000, 'x')); });
    return contains(said, "File too large") && contains(said, file.string()) ? 0 : 1;
  });
  REQUIRE(result == 0);
  CHECK(content_of(file) == "old");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("on a full disk the message says so, the old file stays and no temporary one") {
  const temporary_folder folder;
  const auto result = in_child([&] {
    const int spaces = CLONE_NEWNS | (::geteuid() == 0 ? 0 : CLONE_NEWUSER);
    if (::unshare(spaces) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0
        || ::mount("disk", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0)
      return not_permitted;
    const auto file = folder.write("weights", "old");
    const auto said = message_of([&] { write_atomically(file, std::string(100'000, 'x')); });
    return contains(said, "No space left on device; free some space") && content_of(file) == "old"
            && files_in(folder.path()) == 1
           ? 0
           : 1;
  });
  if (result == not_permitted)
    MESSAGE("NOT TESTED: this machine does not let us mount a small disk to fill");
  else
    CHECK(result == 0);
}
