#include "tests/emulation/fault.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

#include "tests/emulation/engine.hpp"

namespace sluice::emulation {

namespace {

void report(int signal_number, siginfo_t* info, void*) {
  const auto& all = engine::get();
  std::array<char, 48> where{"no device's memory"};
  for (std::size_t i = 0; i < all.devices.size(); ++i)
    if (all.devices[i]->memory.contains(info->si_addr))
      std::snprintf(where.data(), where.size(), "the memory of device %zu", i);
  std::array<char, 160> who{};
  running_lane(who);
  std::array<char, 320> text{};
  const int length =
    std::snprintf(text.data(), text.size(), "%sviolation: %s touched %s, which it may not\n", mark,
                  who.data(), where.data());
  if (write(STDERR_FILENO, text.data(), static_cast<std::size_t>(length)) < 0)
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
