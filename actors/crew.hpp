#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/host_system.hpp"
#include "actors/recruiter.hpp"

namespace sluice::actors {

/// Which workers a trainer calls, and how.
struct crew_options {
  std::vector<std::string> workers = {}; ///< "host:port", each once
  host_options hosts = {};
  bool checksum = false; ///< of tensors between processes
  /// Tensors from GPU to GPU go by NCCL, which neither encrypts nor asks who connects. Else they go
  /// by the sockets, by way of the processors.
  bool nccl = false;
  /// For a worker's answer to a request, and for all connections between the processes.
  std::chrono::milliseconds request_deadline{15'000};
};

/// What is known of a worker that was called.
struct roll_entry {
  std::string address;
  worker_offer offer;  ///< if it is there
  std::string problem; ///< why it cannot be had; empty: it can
};

enum class call_for : std::uint8_t {
  work,     ///< a worker must be free
  presence, ///< it may be leased
};

/// The stages of a run in other processes, and the channels to them.
struct crew_stages {
  std::vector<caf::actor> stages; ///< by rank; none for those of this process
  std::shared_ptr<net::network> network;
  std::vector<std::string> places;            ///< by rank: the worker; "": this process
  std::vector<std::int64_t> clock_offsets_ns; ///< by rank
};

/// The workers of one run, seen from its trainer's process. After a fault the trainer makes a new
/// one: nothing of the old one's connections is used again.
/// Thread: any, one call at a time; calls block. Errors: std::runtime_error that names the worker.
class crew {
public:
  explicit crew(crew_options options);

  /// Lets the workers go: tells them, and waits for their answers.
  ~crew();
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

  caf::actor_system& system();

  /// Calls all workers, again and again until all are there or the time is up. What each said last.
  std::vector<roll_entry> call(call_for what, std::chrono::milliseconds deadline);

  /// Has each rank hosted by the worker that `placement` names ("local": this process). They must
  /// have been there at the last call().
  crew_stages hire_for(const stage_recipe& recipe, const std::vector<shared_parameter>& shared,
                       std::span<const std::string> placement);

private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

} // namespace sluice::actors
