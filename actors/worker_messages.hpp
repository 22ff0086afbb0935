#pragma once

/// What a trainer's process and a worker say to each other, by CAF's networking.
///
///     trainer's process            worker
///        | worker_hello -----------> |
///        | <----------- worker_offer |
///        | lease_request ----------> |   the recipe, and which of its ranks
///        | <------------ lease_grant |   where its tensors go to
///        | start_run --------------> |   where everybody else's go to
///        | <------------ run_started |   its stage actors, once all connections are made
///        |  ... steps, by messages.hpp, between trainer and stages ...
///        | end_lease --------------> |
///        | <------------ lease_ended |   the stages have ended, the sockets are closed
///
/// A refusal is a caf::error whose text says why. The worker watches the lease's owner: when that
/// ends, or the connection to it, the worker does what it does at end_lease.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/caf_compat.hpp"
#include "actors/recipe_inspect.hpp"

namespace sluice::actors {

/// Raised with every change of a message that passes between processes.
inline constexpr std::uint32_t control_version = 2;

/// Stays the same in every version, so that another one is told so. Answer: worker_offer.
struct worker_hello {
  std::uint32_t version = control_version;
};

/// A worker's devices, and who has them.
struct worker_offer {
  std::uint32_t version = control_version;
  std::string name = {};   ///< "host, process 4711"
  std::int32_t stages = 0; ///< that it hosts at once
  /// Of the stages of a lease, one after another and again from the first: "cuda:0". Empty: cpu.
  std::vector<std::string> devices = {};
  std::string arithmetic = {};          ///< what decides the bits of results; equal on all workers
  std::string holder = {};              ///< who has leased it; empty: it is free
  std::vector<std::int32_t> ranks = {}; ///< that it hosts now
  std::int64_t now_ns = 0;              ///< on its clock, which times its tasks
};

/// Asks for stages. Answer: lease_grant.
struct lease_request {
  std::vector<std::uint8_t> token = {}; ///< of the run: 16 random bytes
  caf::actor owner = {};                ///< when it ends, the lease does
  std::string holder = {};              ///< "host, process 4711"
  stage_recipe recipe = {};
  std::vector<std::int32_t> ranks = {}; ///< of the recipe's plan, to be hosted here
  std::int64_t silence_ms = 0;          ///< see net::tcp_options
  bool checksum = false;
  bool make_gpu_id = false; ///< of the run, for NCCL
};

struct lease_grant {
  std::uint16_t tensor_port = 0;         ///< at the host by which the worker was reached
  std::string busy = {};                 ///< not granted: who has the worker just now
  std::vector<std::uint8_t> gpu_id = {}; ///< if asked for
};

/// The GPUs of a run whose tensors go by NCCL.
struct gpu_order {
  std::vector<std::int32_t> ranks = {}; ///< on GPUs, ascending; empty: tensors go by sockets
  std::vector<std::uint8_t> id = {};    ///< that NCCL's processes meet by
  caf::actor sequencer = {};            ///< puts their transfers into one order
};

/// Makes all connections and starts the stages. Answer: run_started, after the connections are
/// made.
struct start_run {
  std::vector<std::uint8_t> token = {};
  std::map<std::int32_t, std::string> peers = {}; ///< addresses of the other ranks' processes
  std::int64_t deadline_ms = 0;
  gpu_order gpus = {};
};

struct run_started {
  std::vector<caf::actor> stages = {}; ///< in the order of the lease's ranks
};

/// Ends a lease. Answer: lease_ended, also when there is none with this token.
struct end_lease {
  std::vector<std::uint8_t> token = {};
};

struct lease_ended {};

/// Of runs that somebody else's launcher starts: each process but the trainer's offers its worker
/// to the trainer's meeting place. Answer: unit. The worker watches the meeting place, and ends
/// with it.
struct join_run {
  std::uint32_t version = control_version;
  std::int32_t rank = 0;    ///< of the process, as the launcher counts
  std::string address = {}; ///< of its worker
};

struct joined_run {
  std::int32_t processes = 0;
};

/// Rank 0's process to those who have joined: the run has ended. They leave.
struct run_over {
  std::string problem = {}; ///< empty: it has ended well
};

/// Worker to itself: its connections are made, or the reason why not.
struct connections_made {
  std::vector<std::uint8_t> token = {};
  std::string problem = {};
};

template <class Inspector>
bool inspect(Inspector& f, worker_hello& x) {
  return f.object(x).fields(f.field("version", x.version));
}

template <class Inspector>
bool inspect(Inspector& f, worker_offer& x) {
  return f.object(x).fields(f.field("version", x.version), f.field("name", x.name),
                            f.field("stages", x.stages), f.field("devices", x.devices),
                            f.field("arithmetic", x.arithmetic), f.field("holder", x.holder),
                            f.field("ranks", x.ranks), f.field("now_ns", x.now_ns));
}

template <class Inspector>
bool inspect(Inspector& f, lease_request& x) {
  return f.object(x).fields(f.field("token", x.token), f.field("owner", x.owner),
                            f.field("holder", x.holder), f.field("recipe", x.recipe),
                            f.field("ranks", x.ranks), f.field("silence_ms", x.silence_ms),
                            f.field("checksum", x.checksum), f.field("make_gpu_id", x.make_gpu_id));
}

template <class Inspector>
bool inspect(Inspector& f, lease_grant& x) {
  return f.object(x).fields(f.field("tensor_port", x.tensor_port), f.field("busy", x.busy),
                            f.field("gpu_id", x.gpu_id));
}

template <class Inspector>
bool inspect(Inspector& f, gpu_order& x) {
  return f.object(x).fields(f.field("ranks", x.ranks), f.field("id", x.id),
                            f.field("sequencer", x.sequencer));
}

template <class Inspector>
bool inspect(Inspector& f, start_run& x) {
  return f.object(x).fields(f.field("token", x.token), f.field("peers", x.peers),
                            f.field("deadline_ms", x.deadline_ms), f.field("gpus", x.gpus));
}

template <class Inspector>
bool inspect(Inspector& f, run_started& x) {
  return f.object(x).fields(f.field("stages", x.stages));
}

template <class Inspector>
bool inspect(Inspector& f, end_lease& x) {
  return f.object(x).fields(f.field("token", x.token));
}

template <class Inspector>
bool inspect(Inspector& f, lease_ended& x) {
  return f.object(x).fields();
}

template <class Inspector>
bool inspect(Inspector& f, join_run& x) {
  return f.object(x).fields(f.field("version", x.version), f.field("rank", x.rank),
                            f.field("address", x.address));
}

template <class Inspector>
bool inspect(Inspector& f, joined_run& x) {
  return f.object(x).fields(f.field("processes", x.processes));
}

template <class Inspector>
bool inspect(Inspector& f, run_over& x) {
  return f.object(x).fields(f.field("problem", x.problem));
}

template <class Inspector>
bool inspect(Inspector& f, connections_made& x) {
  return f.object(x).fields(f.field("token", x.token), f.field("problem", x.problem));
}

} // namespace sluice::actors

// Before the other blocks, so that no later message moves worker_hello.
// clang-format off
CAF_BEGIN_TYPE_ID_BLOCK(sluice_hosts, caf::first_custom_type_id + 900)
  CAF_ADD_TYPE_ID(sluice_hosts, (sluice::actors::worker_hello))
  CAF_ADD_TYPE_ID(sluice_hosts, (sluice::actors::worker_offer))
  CAF_ADD_TYPE_ID(sluice_hosts, (sluice::actors::lease_request))
  CAF_ADD_TYPE_ID(sluice_hosts, (sluice::actors::lease_grant))
  CAF_ADD_TYPE_ID(sluice_hosts, (sluice::actors::start_run))
  CAF_ADD_TYPE_ID(sluice_hosts, (sluice::actors::run_started))
  CAF_ADD_TYPE_ID(sluice_hosts, (sluice::actors::end_lease))
  CAF_ADD_TYPE_ID(sluice_hosts, (sluice::actors::lease_ended))
  CAF_ADD_TYPE_ID(sluice_hosts, (sluice::actors::connections_made))
  CAF_ADD_TYPE_ID(sluice_hosts, (sluice::actors::join_run))
  CAF_ADD_TYPE_ID(sluice_hosts, (sluice::actors::joined_run))
  CAF_ADD_TYPE_ID(sluice_hosts, (sluice::actors::run_over))
CAF_END_TYPE_ID_BLOCK(sluice_hosts)
// clang-format on
