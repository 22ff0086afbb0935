#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace sluice::cli {

/// The part of one process in a run that somebody else's launcher has started.
struct launched_role {
  std::string launcher = {}; ///< "torchrun", "Slurm", ...
  std::int32_t rank = 0;     ///< 0: the trainer
  std::int32_t processes = 1;
  std::int32_t local_rank = 0;   ///< among those on its host
  std::string meeting_host = {}; ///< where the trainer is reached
  std::uint16_t meeting_port = 0;

  bool operator==(const launched_role&) const = default;
};

/// A process's environment: the value of a variable, or nothing.
using environment = std::function<std::optional<std::string>(const std::string&)>;

/// Reads the role from what launchers put into the environment, in this order: torchrun (and
/// whatever sets RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), Open MPI, Slurm, Kubernetes indexed
/// jobs. Nothing where none of them is at work.
///
/// MASTER_ADDR and MASTER_PORT are taken from whoever sets them. Without: Slurm's first host and a
/// port that its job number gives; with Open MPI on one host, that host; of a Kubernetes job, the
/// host name of its pod 0.
/// Errors: std::invalid_argument that names the variable that is missing or is no such number.
std::optional<launched_role> role_of(const environment& of);

/// The first host of Slurm's lists, as in "node[07-09,12],login" (node07).
std::string first_of_host_list(const std::string& list);

} // namespace sluice::cli
