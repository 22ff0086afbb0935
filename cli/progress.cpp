#include "cli/progress.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

namespace sluice::cli {

namespace {

using namespace std::chrono_literals;

constexpr auto between_drawings = 50ms;
constexpr std::size_t widest_bar = 30;
constexpr std::size_t narrowest_bar = 6;
constexpr std::size_t usual_width = 80;

bool draws_over(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && terminal != nullptr && std::string_view{terminal} != "dumb";
}

/// The terminal's width now.
std::size_t width_of(int descriptor) {
  ::winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : usual_width;
}

/// "15.2k": three or four digits are enough to see.
std::string short_number(double value) {
  if (value >= 1e6)
    return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e4)
    return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

/// "1:05", "2:03:07".
std::string clock_text(std::chrono::duration<double> time) {
  if (!std::isfinite(time.count()) || time.count() < 0)
    return "?";
  const auto seconds = static_cast<std::int64_t>(std::llround(time.count()));
  if (seconds < 3600)
    return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

} // namespace

std::string progress_text(const progress_state& now) {
  return fmt::format("step {}/{} | loss {:.4f} | {} tokens/s | bubble {:.1f}% | {} left", now.step,
                     now.steps, now.loss, short_number(now.tokens_per_second), 100 * now.bubble,
                     clock_text(now.remaining));
}

std::string progress_bar(const progress_state& now, std::size_t width) {
  auto text = progress_text(now);
  const auto frame = std::string_view{"[] "}.size();
  if (text.size() + frame + narrowest_bar > width)
    return text.substr(0, width);
  const auto length = std::min(widest_bar, width - text.size() - frame);
  const double share = now.steps > 0 ? static_cast<double>(now.step) / now.steps : 0;
  const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * length);
  return fmt::format("[{}{}] {}", std::string(filled, '='), std::string(length - filled, ' '),
                     text);
}

progress::progress(std::int64_t every)
  : progress(STDERR_FILENO, draws_over(STDERR_FILENO), every) {}

progress::progress(int descriptor, bool is_terminal, std::int64_t every)
  : descriptor_(descriptor),
    is_terminal_(is_terminal),
    every_(std::max<std::int64_t>(every, 1)) {}

progress::~progress() {
  finish();
}

void progress::update(const progress_state& now) {
  latest_ = now;
  latest_is_drawn_ = false;
  const bool first_or_last = is_first_ || now.step >= now.steps;
  is_first_ = false;
  const bool is_due = is_terminal_
                      ? std::chrono::steady_clock::now() - drawn_at_ >= between_drawings
                      : now.step % every_ == 0;
  if (first_or_last || is_due)
    draw(now);
}

void progress::finish() {
  if (is_terminal_ && !latest_is_drawn_)
    draw(latest_);
  if (line_is_open_)
    put("\n");
  line_is_open_ = false;
}

void progress::draw(const progress_state& now) {
  latest_is_drawn_ = true;
  if (!is_terminal_) {
    put(progress_text(now) + '\n');
    return;
  }
  drawn_at_ = std::chrono::steady_clock::now();
  // The last column stays empty: a character there makes some terminals wrap. What a longer line
  // left behind is erased after the text, not before it: that would flicker.
  const auto width = std::max<std::size_t>(width_of(descriptor_), 2) - 1;
  put(fmt::format("\r{}\x1b[K", progress_bar(now, width)));
  line_is_open_ = true;
}

void progress::put(std::string_view text) const {
  while (!text.empty()) {
    const auto written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return; // nobody looks; that is no reason to stop a run
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

} // namespace sluice::cli
