#include "cli/local_workers.hpp"

#include <chrono>
#include <csignal>
#include <stdexcept>

#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/io.hpp>
#include <boost/process/pipe.hpp>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace sluice::cli {

namespace bp = boost::process;

struct local_workers::process {
  bp::ipstream output; ///< before the child, which writes to it
  bp::child child;
};

namespace {

std::vector<std::string> command_line(int slots, const meeting_options& meeting) {
  std::vector<std::string> words{"worker",           "--listen",
                                 "127.0.0.1:0",      "--quiet",
                                 "--slots",          std::to_string(slots),
                                 "--fault-deadline", fmt::format("{}", meeting.fault_deadline)};
  if (!meeting.tls_ca.empty())
    words.insert(words.end(), {"--tls-ca", meeting.tls_ca, "--tls-cert", meeting.tls_cert,
                               "--tls-key", meeting.tls_key});
  return words;
}

/// In the child, before it becomes a worker. A Ctrl-C is the trainer's to handle, which ends the
/// workers when it has saved its work.
void tie_to_parent(pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) // It has died already.
    ::_exit(1);
}

} // namespace

local_workers::local_workers(int count, int slots, const meeting_options& meeting) {
  const auto words = command_line(slots, meeting);
  for (int i = 0; i < count; ++i) {
    auto& each = *processes_.emplace_back(std::make_unique<process>());
    each.child = bp::child(
      bp::exe = "/proc/self/exe", bp::args = words, bp::std_out > each.output,
      bp::std_in < bp::null,
      bp::extend::on_exec_setup = [parent = ::getpid()](auto&) { tie_to_parent(parent); });
  }
  constexpr std::string_view greeting = "listening on ";
  for (auto& each : processes_) {
    std::string line;
    if (!std::getline(each->output, line) || !line.starts_with(greeting))
      throw std::runtime_error("a worker process did not start; its message is above");
    addresses_.push_back(line.substr(greeting.size()));
  }
}

local_workers::~local_workers() {
  std::error_code ignored;
  for (auto& each : processes_)
    if (each->child.running(ignored))
      ::kill(each->child.id(), SIGTERM);
  for (auto& each : processes_)
    if (each->child.valid() && !each->child.wait_for(std::chrono::seconds(3), ignored))
      each->child.terminate(ignored);
}

} // namespace sluice::cli
