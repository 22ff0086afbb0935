#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/host_options.hpp"

namespace sluice::cli {

/// Worker processes on this host. They end with this object, and with this process however it ends.
class local_workers {
public:
  /// Starts them and waits until they listen. Errors: std::runtime_error.
  local_workers(int count, int slots, const meeting_options& meeting);
  ~local_workers();
  local_workers(const local_workers&) = delete;
  local_workers& operator=(const local_workers&) = delete;

  const std::vector<std::string>& addresses() const noexcept { return addresses_; }

private:
  struct process;

  std::vector<std::unique_ptr<process>> processes_;
  std::vector<std::string> addresses_;
};

} // namespace sluice::cli
