#pragma once

#include <nccl.h>

#include <array>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/emulation/engine.hpp"

namespace sluice::emulation {

struct clique;
struct nccl_operation;

/// One ncclSend() or ncclRecv().
struct piece {
  bool sends = false;
  void* buffer = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  int peer = 0;
  stream_state* on = nullptr;
  nccl_operation* of = nullptr;
  piece* match = nullptr;
  bool peer_gone = false;
  bool done = false;
  std::uint64_t digest = 0;        ///< of what is sent, when the transfer starts
  std::vector<std::byte> buffered; ///< what a send left behind, in the mode with credits

  std::size_t bytes() const;
};

/// What one group does on one communicator: it starts and ends as one.
struct nccl_operation {
  ncclComm* of = nullptr;
  std::vector<std::unique_ptr<piece>> pieces;
  std::vector<std::weak_ptr<operation>> entries; ///< in each of its streams
  std::vector<stream_state*> streams;
  std::shared_ptr<nccl_operation> previous; ///< of the communicator, until that is done
  std::size_t arrived = 0;
  bool started = false;
  bool finished = false;
};

/// A communicator that is not finished with its first use of a connection.
struct submission {
  std::shared_ptr<nccl_operation> what;
  std::vector<std::tuple<int, int, bool>> needs; ///< rank, peer, whether it sends
};

/// The ranks of one ncclUniqueId.
struct clique {
  std::string name;
  std::vector<ncclComm*> ranks;
  std::set<std::tuple<int, int, bool>> connected;          ///< ends: rank, peer, whether it sends
  std::map<std::pair<int, int>, std::deque<piece*>> sends; ///< unmatched, by (from, to)
  std::map<std::pair<int, int>, std::deque<piece*>> receives;
  std::map<std::pair<int, int>, int> ahead; ///< sends that ended before their receives
  std::size_t gone = 0;                     ///< ranks that destroyed or aborted theirs
  /// All that there ever were: matches point at each other.
  std::vector<std::shared_ptr<nccl_operation>> history;

  bool complete() const;
};

std::string describe(const piece& what);

/// Matches the pieces in the order of this call and notes what their connections still need.
submission submit_locked(engine& of, ncclComm& on, std::vector<std::unique_ptr<piece>> pieces);
bool connected(const submission& what);
void enqueue_locked(engine& of, submission what);

/// Gives an unfinished operation up; its peers stay where they are.
void drop_locked(nccl_operation& what);

} // namespace sluice::emulation

/// A rank's communicator; what ncclComm_t points to.
struct ncclComm {
  sluice::emulation::clique* in = nullptr;
  int rank = 0;
  int device = 0;
  bool blocking = true;
  bool aborted = false;
  std::thread::id owner;
  ncclResult_t error = ncclSuccess;
  std::shared_ptr<sluice::emulation::nccl_operation> last;
  std::vector<std::weak_ptr<sluice::emulation::nccl_operation>> live;
  std::vector<sluice::emulation::submission> waiting; ///< non-blocking: first uses under way

  bool in_progress() const { return !blocking && (!in->complete() || !waiting.empty()); }
};

namespace sluice::emulation {

/// All that exist, for the engine's progress.
std::vector<ncclComm*>& communicators();

} // namespace sluice::emulation
