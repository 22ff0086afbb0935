#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice::net::test {

/// A program that runs beside the test; killed at the latest when the object goes.
class child {
public:
  explicit child(std::vector<std::string> command) {
    int input[2];
    int output[2];
    if (::pipe(input) != 0 || ::pipe(output) != 0)
      throw std::runtime_error("no pipes");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    for (const int each : {input[0], input[1], output[0], output[1]})
      ::posix_spawn_file_actions_addclose(&actions, each);
    std::vector<char*> arguments;
    for (auto& each : command)
      arguments.push_back(each.data());
    arguments.push_back(nullptr);
    const int failed =
      ::posix_spawn(&id_, arguments[0], &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(input[0]);
    ::close(output[1]);
    to_ = input[1];
    from_ = ::fdopen(output[0], "r");
    if (failed != 0)
      throw std::runtime_error("cannot start " + command[0]);
  }

  ~child() {
    kill();
    ::close(to_);
    std::fclose(from_);
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  /// The next line that it prints; empty at its end.
  std::string line() {
    std::string text;
    for (int each = std::fgetc(from_); each != EOF && each != '\n'; each = std::fgetc(from_))
      text += static_cast<char>(each);
    return text;
  }

  void tell(const std::string& text) {
    const auto all = text + "\n";
    if (::write(to_, all.data(), all.size()) < 0)
      throw std::runtime_error("the child reads nothing");
  }

  /// SIGKILL, and waits for its end.
  void kill() {
    if (id_ <= 0)
      return;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
    id_ = 0;
  }

private:
  pid_t id_ = 0;
  int to_ = -1;
  std::FILE* from_ = nullptr;
};

} // namespace sluice::net::test
