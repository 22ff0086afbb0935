#include "cli/stop_signals.hpp"

namespace sluice::cli {

namespace {

volatile std::sig_atomic_t signal_received = 0;

constexpr std::array stopping{SIGINT, SIGTERM};

/// The next signal of either kind does what it always did: it ends the process.
void remember_signal(int number) {
  signal_received = number;
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (const int each : stopping)
    sigaction(each, &usual, nullptr);
}

} // namespace

stop_signals::stop_signals() {
  signal_received = 0;
  struct sigaction once {};
  once.sa_handler = remember_signal;
  for (std::size_t i = 0; i < stopping.size(); ++i)
    sigaction(stopping[i], &once, &before_[i]);
}

stop_signals::~stop_signals() {
  for (std::size_t i = 0; i < stopping.size(); ++i)
    sigaction(stopping[i], &before_[i], nullptr);
}

int stop_signals::received() noexcept {
  return signal_received;
}

} // namespace sluice::cli
