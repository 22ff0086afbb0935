#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::cli {

/// What a training run shows of itself after a step.
struct progress_state {
  std::int64_t step = 0; ///< finished so far
  std::int64_t steps = 0;
  double loss = 0;
  double tokens_per_second = 0;
  double bubble = 0;                         ///< share of the time, 0 to 1
  std::chrono::duration<double> remaining{}; ///< estimated time left
};

/// "step 120/300 | loss 2.4321 | 15.2k tokens/s | bubble 12.3% | 1:05 left"
std::string progress_text(const progress_state& now);

/// The same behind a bar, in at most `width` columns: the bar gives way first, then the text's end.
std::string progress_bar(const progress_state& now, std::size_t width);

/// Shows a run's progress on a terminal as one line that is drawn over, elsewhere as a plain line
/// every `every` steps and for the first and the last.
///
/// The terminal's width is asked for at every drawing, so a resized window needs no signal handler.
/// A drawing is one write and at most twenty are made a second, so nothing flickers.
/// Thread: one.
class progress {
public:
  /// Standard error, a terminal or not.
  explicit progress(std::int64_t every = 10);

  /// For tests: any descriptor, which stays the caller's.
  progress(int descriptor, bool is_terminal, std::int64_t every);

  /// Leaves the last state on the screen.
  ~progress();

  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  void update(const progress_state& now);

  /// Ends the line, so that other text can follow. The next update() draws a new one.
  void finish();

private:
  void draw(const progress_state& now);
  void put(std::string_view text) const;

  int descriptor_;
  bool is_terminal_;
  std::int64_t every_;
  bool line_is_open_ = false; ///< the cursor stands in a drawn line
  bool is_first_ = true;
  progress_state latest_;
  bool latest_is_drawn_ = true;
  std::chrono::steady_clock::time_point drawn_at_;
};

} // namespace sluice::cli
