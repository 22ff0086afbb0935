#include "cli/progress.hpp"

#include <array>
#include <cmath>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <doctest/doctest.h>

using namespace sluice::cli;

namespace {

progress_state state_at(std::int64_t step, std::int64_t steps = 300) {
  return {.step = step,
          .steps = steps,
          .loss = 2.43214,
          .tokens_per_second = 15234,
          .bubble = 0.1234,
          .remaining = std::chrono::seconds{65}};
}

/// A pipe whose written end a progress writes to.
class pipe_end {
public:
  pipe_end() {
    REQUIRE(::pipe(ends_.data()) == 0);
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~pipe_end() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  int descriptor() const { return ends_[1]; }

  std::string written() const {
    std::array<char, 65536> buffer;
    const auto got = ::read(ends_[0], buffer.data(), buffer.size());
    return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : "";
  }

private:
  std::array<int, 2> ends_{};
};

} // namespace

TEST_CASE("the line says step, loss, speed, bubble and the time left") {
  CHECK(progress_text(state_at(120))
        == "step 120/300 | loss 2.4321 | 15.2k tokens/s | bubble 12.3% | 1:05 left");
  auto now = state_at(1);
  now.tokens_per_second = 950;
  now.remaining = std::chrono::seconds{2 * 3600 + 3 * 60 + 7};
  CHECK(progress_text(now)
        == "step 1/300 | loss 2.4321 | 950 tokens/s | bubble 12.3% | 2:03:07 left");
  now.remaining = std::chrono::duration<double>{INFINITY};
  CHECK(progress_text(now).ends_with("? left"));
}

TEST_CASE("the bar fills with the steps and gives way to the text") {
  const auto text = progress_text(state_at(150));
  CHECK(progress_bar(state_at(150), text.size() + 13) == "[=====     ] " + text);
  CHECK(progress_bar(state_at(300), 200)
        == "[" + std::string(30, '=') + "] " + progress_text(state_at(300)));
  CHECK(progress_bar(state_at(150), text.size() + 3) == text);
  CHECK(progress_bar(state_at(150), 12) == "step 150/300");
  CHECK(progress_bar(state_at(0, 0), 200).starts_with("[ "));
}

TEST_CASE("where there is no terminal a plain line comes at the first, every Nth and last step") {
  const pipe_end out;
  {
    progress shown{out.descriptor(), false, 10};
    for (std::int64_t step = 1; step <= 25; ++step)
      shown.update(state_at(step, 25));
  }
  std::string expected;
  for (const std::int64_t step : {1, 10, 20, 25})
    expected += progress_text(state_at(step, 25)) + "\n";
  CHECK(out.written() == expected);
}

TEST_CASE("on a terminal one line is drawn over, and the last state stays") {
  const pipe_end out;
  progress shown{out.descriptor(), true, 10};
  for (std::int64_t step = 1; step <= 24; ++step)
    shown.update(state_at(step));
  const auto drawn = out.written();
  CHECK(drawn.starts_with("\r"));
  CHECK(drawn.ends_with("\x1b[K"));
  CHECK(drawn.find('\n') == std::string::npos);
  CHECK(drawn.find("step 2/300") == std::string::npos); // too soon after the first
  shown.finish();
  CHECK(out.written().find("step 24/300") != std::string::npos);
  shown.finish();
  CHECK(out.written().empty());
}

TEST_CASE("a window that is resized between two drawings is filled and never overrun") {
  int ours = -1;
  int terminal = -1;
  ::winsize size{.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  if (::openpty(&ours, &terminal, nullptr, nullptr, &size) != 0) {
    MESSAGE("NOT TESTED: this machine does not give us a terminal");
    return;
  }
  const auto columns_drawn = [&](std::int64_t step) {
    progress shown{terminal, true, 1};
    shown.update(state_at(step));
    std::array<char, 1024> buffer;
    const auto got = ::read(ours, buffer.data(), buffer.size());
    const auto frame = std::string_view{"\r\x1b[K"}.size();
    return static_cast<std::size_t>(got) - frame;
  };
  CHECK(columns_drawn(1) == 99);
  size.ws_col = 40;
  REQUIRE(::ioctl(terminal, TIOCSWINSZ, &size) == 0);
  while (::poll(std::array{::pollfd{ours, POLLIN, 0}}.data(), 1, 0) > 0) { // the line's end
    std::array<char, 1024> rest;
    REQUIRE(::read(ours, rest.data(), rest.size()) > 0);
  }
  CHECK(columns_drawn(2) == 39);
  ::close(ours);
  ::close(terminal);
}

TEST_CASE("a reader that has gone does not stop a run") {
  progress shown{-1, false, 1};
  shown.update(state_at(1));
}
