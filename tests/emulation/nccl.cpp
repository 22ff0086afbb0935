// NCCL's functions that the project uses, with the rules of nccl_model.hpp.

#include "tests/emulation/nccl_model.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/emulation/runtime_call.hpp"

namespace sluice::emulation {

namespace {

struct pending_piece {
  ncclComm* on;
  std::unique_ptr<piece> what;
};

thread_local int group_depth = 0;
thread_local std::vector<pending_piece> group_pieces;
thread_local std::vector<ncclComm*> group_inits;
thread_local std::vector<ncclComm*> group_aborts;
// Never destroyed: the engine's thread outlives statics.
auto& cliques = *new std::map<std::string, std::unique_ptr<clique>>;
int next_id = 1;

ncclResult_t check_usable(call& in, const ncclComm& on) {
  if (on.aborted) {
    in.all.violate_locked("a call on a communicator that was aborted");
    return ncclInvalidArgument;
  }
  if (on.in_progress()) {
    in.all.violate_locked("a call on a communicator that is still in progress");
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

ncclResult_t finish_inits(call& in) {
  auto result = ncclSuccess;
  for (auto* each : std::exchange(group_inits, {})) {
    if (!each->blocking) {
      result = ncclInProgress;
      continue;
    }
    const auto what = "ncclCommInitRank of rank " + std::to_string(each->rank)
                    + ", which waits for the other ranks";
    if (!in.all.wait_locked(in.lock, what, {}, [&] { return each->in->complete(); }))
      return ncclInternalError;
  }
  return result;
}

ncclResult_t submit_group(call& in, ncclComm& on, std::vector<std::unique_ptr<piece>> pieces) {
  auto made = submit_locked(in.all, on, std::move(pieces));
  in.all.progress_locked();
  if (!on.blocking) {
    on.waiting.push_back(std::move(made));
    return ncclInProgress;
  }
  std::string what = "the first use of a connection by rank " + std::to_string(on.rank)
                   + ", which waits for the host of rank";
  for (const auto& [rank, peer, sends] : made.needs)
    what += " " + std::to_string(rank);
  if (!in.all.wait_locked(in.lock, what, {}, [&] { return connected(made) || on.aborted; }))
    return ncclInternalError;
  enqueue_locked(in.all, std::move(made));
  return ncclSuccess;
}

ncclResult_t finish_pieces(call& in) {
  auto pieces = std::exchange(group_pieces, {});
  auto result = ncclSuccess;
  while (!pieces.empty()) {
    auto* on = pieces.front().on;
    std::vector<std::unique_ptr<piece>> mine;
    for (auto& each : pieces)
      if (each.on == on)
        mine.push_back(std::move(each.what));
    std::erase_if(pieces, [](const auto& each) { return each.what == nullptr; });
    const auto one = submit_group(in, *on, std::move(mine));
    if (one != ncclSuccess && one != ncclInProgress)
      return one;
    result = one == ncclInProgress ? one : result;
  }
  return result;
}

/// All flags first, then the wait for what lies in the streams.
ncclResult_t finish_aborts(call& in) {
  const auto aborted = std::exchange(group_aborts, {});
  for (auto* each : aborted) {
    if (each->owner != std::this_thread::get_id())
      in.all.violate_locked("ncclCommAbort on another thread than the communicator's");
    each->aborted = true;
    ++each->in->gone;
    each->waiting.clear();
    for (const auto& weak : each->live)
      if (const auto what = weak.lock())
        drop_locked(*what);
  }
  in.all.progress_locked();
  for (auto* each : aborted) {
    std::vector<operation_ptr> targets;
    for (const auto& weak : each->live)
      if (const auto what = weak.lock())
        for (const auto& entry : what->entries)
          targets.push_back(entry.lock());
    const auto drained = [&] {
      return std::ranges::all_of(targets, [](const auto& entry) {
        const auto& pending = entry ? entry->on->pending : std::deque<operation_ptr>{};
        return std::ranges::find(pending, entry) == pending.end();
      });
    };
    if (!in.all.wait_locked(in.lock, "ncclCommAbort, behind what precedes it in its streams",
                            targets, drained))
      return ncclInternalError;
  }
  return ncclSuccess;
}

ncclResult_t finish_group(call& in) {
  const auto inits = finish_inits(in);
  if (inits != ncclSuccess && inits != ncclInProgress)
    return inits;
  const auto pieces = finish_pieces(in);
  if (pieces != ncclSuccess && pieces != ncclInProgress)
    return pieces;
  const auto aborts = finish_aborts(in);
  if (aborts != ncclSuccess)
    return aborts;
  return inits == ncclInProgress || pieces == ncclInProgress ? ncclInProgress : ncclSuccess;
}

ncclResult_t post(std::unique_ptr<piece> what, ncclComm* on, cudaStream_t stream) {
  call in(what->sends ? "ncclSend" : "ncclRecv");
  if (const auto bad = check_usable(in, *on); bad != ncclSuccess)
    return bad;
  what->on = stream_of(stream);
  if (what->on == nullptr || what->on->device != on->device) {
    in.all.violate_locked("an NCCL operation on a stream of another device");
    return ncclInvalidUsage;
  }
  if (what->peer < 0 || what->peer >= static_cast<int>(on->in->ranks.size()))
    return ncclInvalidArgument;
  const auto& memory = in.all.devices[static_cast<std::size_t>(on->device)]->memory;
  if (what->bytes() == 0 || memory.bytes_from(what->buffer) < what->bytes()) {
    in.all.violate_locked("an NCCL operation without bytes or beyond its buffer");
    return ncclInvalidArgument;
  }
  group_pieces.push_back({on, std::move(what)});
  return group_depth > 0 ? ncclSuccess : finish_group(in);
}

ncclResult_t wait_for_own(call& in, ncclComm& on, const char* what) {
  if (const auto bad = check_usable(in, on); bad != ncclSuccess)
    return bad;
  std::vector<operation_ptr> targets;
  if (on.last)
    for (const auto& each : on.last->entries)
      targets.push_back(each.lock());
  const auto fine =
    in.all.wait_locked(in.lock, what, targets, [&] { return !on.last || on.last->finished; });
  return fine ? ncclSuccess : ncclInternalError;
}

} // namespace
} // namespace sluice::emulation

using namespace sluice::emulation;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  call in(__func__);
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "emulated-%d", next_id++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  call in(__func__);
  auto& entry = cliques[id.internal];
  if (entry == nullptr) {
    entry = std::make_unique<clique>();
    entry->name = id.internal;
    entry->ranks.resize(static_cast<std::size_t>(ranks));
  }
  const auto index = static_cast<std::size_t>(rank);
  if (static_cast<int>(entry->ranks.size()) != ranks || rank < 0 || rank >= ranks
      || entry->ranks[index] != nullptr)
    return ncclInvalidArgument;
  for (const auto* other : entry->ranks)
    if (other != nullptr && other->device == current_device()) {
      in.all.violate_locked("two ranks of a communicator on one device");
      return ncclInvalidUsage;
    }
  auto* made = new ncclComm;
  made->in = entry.get();
  made->rank = rank;
  made->device = current_device();
  made->blocking = config == nullptr || config->blocking != 0;
  made->owner = std::this_thread::get_id();
  entry->ranks[index] = made;
  communicators().push_back(made);
  *out = made;
  group_inits.push_back(made);
  in.all.progress_locked();
  return group_depth > 0 ? ncclSuccess : finish_group(in);
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  call in(__func__);
  if (group_depth == 0)
    return ncclInvalidUsage;
  return --group_depth > 0 ? ncclSuccess : finish_group(in);
}

ncclResult_t ncclSend(const void* buffer, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t on, cudaStream_t stream) {
  auto made = std::make_unique<piece>();
  made->sends = true;
  made->buffer = const_cast<void*>(buffer);
  made->count = count;
  made->type = type;
  made->peer = peer;
  return post(std::move(made), on, stream);
}

ncclResult_t ncclRecv(void* buffer, std::size_t count, ncclDataType_t type, int peer, ncclComm_t on,
                      cudaStream_t stream) {
  auto made = std::make_unique<piece>();
  made->buffer = buffer;
  made->count = count;
  made->type = type;
  made->peer = peer;
  return post(std::move(made), on, stream);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t on, ncclResult_t* error) {
  call in(__func__);
  in.all.changed.notify_all();
  *error = on->error != ncclSuccess ? on->error : on->in_progress() ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t on) {
  call in(__func__);
  group_aborts.push_back(on);
  return group_depth > 0 ? ncclSuccess : finish_group(in);
}

ncclResult_t ncclCommFinalize(ncclComm_t on) {
  call in(__func__);
  return wait_for_own(in, *on, "ncclCommFinalize");
}

ncclResult_t ncclCommDestroy(ncclComm_t on) {
  call in(__func__);
  const auto result = wait_for_own(in, *on, "ncclCommDestroy");
  if (result != ncclSuccess)
    return result;
  ++on->in->gone;
  in.all.progress_locked();
  const auto fine = in.all.wait_locked(in.lock, "ncclCommDestroy, which waits for the other ranks",
                                       {}, [&] { return on->in->gone >= on->in->ranks.size(); });
  on->aborted = true;
  return fine ? ncclSuccess : ncclInternalError;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
  case ncclSuccess:
    return "no error";
  case ncclInProgress:
    return "NCCL operation in progress";
  case ncclInvalidUsage:
    return "invalid usage";
  case ncclInvalidArgument:
    return "invalid argument";
  default:
    return "internal error";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  return "emulated";
}

} // extern "C"
