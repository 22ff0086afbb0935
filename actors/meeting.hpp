#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/host_system.hpp"

namespace sluice::actors {

/// Where the processes of a run that somebody else's launcher has started find each other: rank 0
/// listens, the others tell it where their workers are.
/// Thread: any, one call at a time; calls block. Errors: std::runtime_error that names the rank.
class meeting_place {
public:
  /// Listens. processes: with this one.
  meeting_place(const host_options& options, const net::address& at, std::int32_t processes);

  /// A run that was not ended has failed.
  ~meeting_place();
  meeting_place(const meeting_place&) = delete;
  meeting_place& operator=(const meeting_place&) = delete;

  /// The workers' addresses, by rank from 1 on. Errors: who has not come by then.
  std::vector<std::string> wait_for_all(std::chrono::milliseconds deadline);

  /// Tells those who have joined that the run is over, and waits until they know, at most for
  /// the fault deadline. problem: empty if it has ended well.
  void end(const std::string& problem);

private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// Tells the meeting place where this process's worker is, and waits until the run is over.
/// `hosts` is the worker's. deadline: for the first of these. Returns what went wrong with the run;
/// empty: nothing.
/// Errors: std::runtime_error when the meeting place cannot be reached or refuses.
std::string attend(host_system& hosts, const net::address& at, std::int32_t rank,
                   const std::string& own_address, std::chrono::milliseconds deadline);

} // namespace sluice::actors
