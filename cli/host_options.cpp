#include "cli/host_options.hpp"

#include <algorithm>
#include <stdexcept>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "cli/failure.hpp"
#include "cli/option_checks.hpp"
#include "net/tcp/address.hpp"

namespace sluice::cli {

actors::host_options meeting_options::hosts() const {
  actors::host_options made{.tls = {}, .fault_deadline = milliseconds_of(fault_deadline)};
  const int given =
    (tls_ca.empty() ? 0 : 1) + (tls_cert.empty() ? 0 : 1) + (tls_key.empty() ? 0 : 1);
  if (given != 0 && given != 3)
    throw usage_error("--tls-ca, --tls-cert and --tls-key go together: each process shows its own "
                      "certificate and demands one of the same authority");
  if (given == 3)
    made.tls = net::tls_files{tls_ca, tls_cert, tls_key};
  return made;
}

void add_meeting_options(CLI::App& to, meeting_options& meeting) {
  to.add_option("--tls-ca", meeting.tls_ca, "authority whose certificates are trusted, PEM [none]")
    ->type_name("FILE");
  to.add_option("--tls-cert", meeting.tls_cert, "this process's certificate, PEM [none]")
    ->type_name("FILE");
  to.add_option("--tls-key", meeting.tls_key, "the certificate's key, PEM [none]")
    ->type_name("FILE");
  to.add_option("--fault-deadline", meeting.fault_deadline,
                "seconds without a sign of life after which a process counts as gone")
    ->type_name("SECONDS")
    ->check(CLI::Range(1.5, 3600.0));
}

void add_host_options(CLI::App& to, host_options& hosts) {
  to.add_option("--workers", hosts.workers,
                "processes that host the stages, in contiguous blocks [none: this one does]")
    ->type_name("HOST:PORT,...")
    ->delimiter(',');
  to.add_option("--placement", hosts.placement,
                "by hand: the worker of each stage, or local for this process [in blocks]")
    ->type_name("HOST:PORT,...")
    ->delimiter(',');
  add_meeting_options(to, hosts.meeting);
  to.add_option("--join-deadline", hosts.join_deadline,
                "seconds to wait for workers that are not there or busy, at the start and after a "
                "fault")
    ->type_name("SECONDS")
    ->check(positive_number());
  to.add_option("--on-fault", hosts.on_fault,
                "when a worker is lost: continue from the last checkpoint with those that are "
                "there, or stop")
    ->type_name("continue|stop")
    ->check(one_of({"continue", "stop"}));
  to.add_flag(
    "--from-environment", hosts.from_environment,
    "one of several processes that torchrun, mpirun, srun or Kubernetes has started: rank "
    "0 trains, all host stages");
  to.add_flag("--checksum", hosts.checksum, "check tensors between processes by a checksum");
  to.add_flag("--nccl", hosts.nccl,
              "tensors between GPUs of several workers go by NCCL, which does not encrypt and lets "
              "anybody connect; without it by the sockets");
}

std::vector<std::string> checked_workers(const std::vector<std::string>& workers) {
  for (auto each = workers.begin(); each != workers.end(); ++each) {
    try {
      const auto at = net::parse_address(*each);
      if (at.is_unix() || at.port == 0)
        throw std::invalid_argument(fmt::format("'{}': a host and its port are needed", *each));
    } catch (const std::invalid_argument& problem) {
      throw usage_error(fmt::format("--workers: {}", problem.what()));
    }
    if (std::find(workers.begin(), each, *each) != each)
      throw usage_error(fmt::format("--workers: {} is there twice", *each));
  }
  return workers;
}

std::vector<std::string> place_in_blocks(const std::vector<std::string>& workers, int stages) {
  std::vector<std::string> places;
  const auto count = static_cast<std::size_t>(stages);
  for (std::size_t stage = 0; stage < count; ++stage)
    places.push_back(workers[stage * workers.size() / count]);
  return places;
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

} // namespace sluice::cli
