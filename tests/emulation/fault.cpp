#include "tests/emulation/fault.hpp"

#include <csignal>
#include <cstring>
#include <string>

#include <unistd.h>

#include "tests/emulation/engine.hpp"

namespace sluice::emulation {

namespace {

// Not safe for signals in general, but this is the last thing that the program does.
void report(int signal_number, siginfo_t* info, void*) {
  const auto& all = engine::get();
  std::string where = "no device's memory";
  for (std::size_t i = 0; i < all.devices.size(); ++i)
    if (all.devices[i]->memory.contains(info->si_addr))
      where = "the memory of device " + std::to_string(i);
  const auto lane = running_lane();
  const auto text = std::string(mark) + "violation: " + (lane.empty() ? "host code" : lane)
                  + " touched " + where + ", which it may not\n";
  if (write(STDERR_FILENO, text.data(), text.size()) < 0)
    std::abort();
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

} // namespace

void name_faults() {
  struct sigaction action {};
  action.sa_sigaction = report;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
}

} // namespace sluice::emulation
