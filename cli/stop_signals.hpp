#pragma once

#include <array>
#include <csignal>

namespace sluice::cli {

/// Remembers SIGINT and SIGTERM while it lives, so that a run can end between two steps. A second
/// signal ends the process at once.
class stop_signals {
public:
  stop_signals();
  ~stop_signals();
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;

  /// The signal that came, or 0.
  static int received() noexcept;

private:
  std::array<struct sigaction, 2> before_{};
};

} // namespace sluice::cli
