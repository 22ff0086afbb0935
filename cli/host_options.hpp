#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "actors/host_system.hpp"

namespace sluice::cli {

/// How processes of a run meet: certificates, and when one counts as gone.
struct meeting_options {
  std::string tls_ca;
  std::string tls_cert;
  std::string tls_key;
  double fault_deadline = 5; ///< seconds

  /// Errors: usage_error for some of the three files without the others.
  actors::host_options hosts() const;
};

/// Where stages run beside this process, and what happens after a fault.
struct host_options {
  std::vector<std::string> workers;   ///< "host:port"
  std::vector<std::string> placement; ///< by stage: "host:port" or "local"; empty: in blocks
  meeting_options meeting;
  double join_deadline = 10; ///< seconds
  std::string on_fault = "continue";
  bool checksum = false;
  bool nccl = false;
  bool from_environment = false;

  bool given() const { return !workers.empty() || !placement.empty(); }
};

void add_meeting_options(CLI::App& to, meeting_options& meeting);
void add_host_options(CLI::App& to, host_options& hosts);

/// "--workers": the addresses, checked. Errors: usage_error for one that is none, or twice there.
std::vector<std::string> checked_workers(const std::vector<std::string>& workers);

/// Which worker hosts each stage: contiguous blocks, as even as can be, in the workers' order.
/// Fewer stages than workers leave some without.
std::vector<std::string> place_in_blocks(const std::vector<std::string>& workers, int stages);

std::chrono::milliseconds milliseconds_of(double seconds);

} // namespace sluice::cli
