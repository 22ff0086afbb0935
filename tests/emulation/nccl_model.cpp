// How NCCL's sends and receives behave at their worst; the rules are those of docs/gpus.md.

#include "tests/emulation/nccl_model.hpp"

#include <algorithm>
#include <cstring>

namespace sluice::emulation {

namespace {

constexpr int most_ahead = 8;

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclUint32:
  case ncclFloat32:
    return 4;
  default:
    return 8;
  }
}

std::uint64_t digest_of(const void* from, std::size_t bytes) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  const auto* at = static_cast<const unsigned char*>(from);
  for (std::size_t i = 0; i < bytes; ++i)
    hash = (hash ^ at[i]) * 0x100000001B3U;
  return hash;
}

std::pair<int, int> direction_of(const piece& what) {
  const auto me = what.of->of->rank;
  return what.sends ? std::pair{me, what.peer} : std::pair{what.peer, me};
}

device_memory& memory_of(engine& all, const piece& what) {
  return all.devices[static_cast<std::size_t>(what.of->of->device)]->memory;
}

void match(engine& all, piece& mine) {
  auto& in = *mine.of->of->in;
  const auto where = direction_of(mine);
  auto& others = mine.sends ? in.receives[where] : in.sends[where];
  if (others.empty()) {
    (mine.sends ? in.sends : in.receives)[where].push_back(&mine);
    return;
  }
  auto& other = *others.front();
  others.pop_front();
  mine.match = &other;
  other.match = &mine;
  if (mine.bytes() == other.bytes() && mine.type == other.type)
    return;
  all.violate_locked("sizes or types differ: " + describe(mine) + ", against " + describe(other));
  for (auto* each : {&mine, &other}) {
    each->done = true;
    each->of->of->error = ncclInvalidUsage;
  }
}

bool may_start(const engine& all, const nccl_operation& what) {
  if (what.entries.empty() || what.arrived < what.entries.size())
    return false;
  if (what.previous && !what.previous->finished)
    return false;
  if (all.model == device_model::independent)
    return true;
  for (const auto& each : all.devices[static_cast<std::size_t>(what.of->device)]->transfers) {
    const auto earlier = each.lock();
    if (earlier.get() == &what)
      return true;
    if (earlier && !earlier->finished)
      return false;
  }
  return true;
}

void start(engine& all, nccl_operation& what) {
  what.started = true;
  what.previous.reset();
  for (auto& each : what.pieces) {
    auto& memory = memory_of(all, *each);
    memory.open();
    if (each->sends)
      each->digest = digest_of(each->buffer, each->bytes());
    else
      std::memset(each->buffer, 0xFF, each->bytes());
    if (each->sends && all.sends == send_model::eight_credits && !each->done) {
      auto& ahead = each->of->of->in->ahead[direction_of(*each)];
      if (ahead < most_ahead) {
        ++ahead;
        const auto* from = static_cast<const std::byte*>(each->buffer);
        each->buffered.assign(from, from + each->bytes());
        each->done = true;
      }
    }
    memory.close();
  }
}

/// Moves the bytes of a receive that has started, if its send has too.
bool transfer(engine& all, piece& receive) {
  auto* send = receive.match;
  if (receive.done || send == nullptr || !send->of->started)
    return false;
  auto& to = memory_of(all, receive);
  auto& from = memory_of(all, *send);
  to.open();
  from.open();
  if (!send->buffered.empty()) {
    std::memcpy(receive.buffer, send->buffered.data(), receive.bytes());
    --receive.of->of->in->ahead[direction_of(receive)];
  } else {
    if (digest_of(send->buffer, send->bytes()) != send->digest)
      all.violate_locked("a send buffer changed before the send was done: " + describe(*send));
    std::memcpy(receive.buffer, send->buffer, receive.bytes());
  }
  from.close();
  to.close();
  receive.done = true;
  send->done = true;
  return true;
}

bool finish_if_done(nccl_operation& what) {
  if (!what.started || what.finished
      || !std::ranges::all_of(what.pieces, [](const auto& each) { return each->done; }))
    return false;
  what.finished = true;
  return true;
}

bool progress(engine& all, nccl_operation& what,
              const std::function<bool(const operation&)>& may_run) {
  bool changed = false;
  bool wanted = false;
  for (const auto& each : what.entries) {
    const auto entry = each.lock();
    if (!entry)
      continue;
    wanted = wanted || may_run(*entry);
    if (!entry->arrived && entry->on->pending.front() == entry) {
      entry->arrived = true;
      ++what.arrived;
      changed = true;
    }
  }
  if (!what.started && may_start(all, what)) {
    start(all, what);
    changed = true;
  }
  for (auto& each : what.pieces) {
    if (!what.started || !wanted)
      break;
    auto* receive = each->sends ? each->match : each.get();
    if (receive != nullptr && receive->of->started)
      changed = transfer(all, *receive) || changed;
  }
  return finish_if_done(what) || changed;
}

} // namespace

std::vector<ncclComm*>& communicators() {
  static auto* all = new std::vector<ncclComm*>; // for the engine's thread, which outlives statics
  return *all;
}

std::size_t piece::bytes() const {
  return count * size_of(type);
}

bool clique::complete() const {
  return std::ranges::all_of(ranks, [](const auto* each) { return each != nullptr; });
}

std::string describe(const piece& what) {
  return std::string(what.sends ? "the send to rank " : "the receive from rank ")
       + std::to_string(what.peer) + " by rank " + std::to_string(what.of->of->rank) + " of "
       + std::to_string(what.bytes()) + " bytes (" + std::to_string(what.count) + " of type "
       + std::to_string(what.type) + ") on communicator " + what.of->of->in->name;
}

submission submit_locked(engine& all, ncclComm& on, std::vector<std::unique_ptr<piece>> pieces) {
  submission made;
  made.what = std::make_shared<nccl_operation>();
  auto& what = *made.what;
  what.of = &on;
  what.pieces = std::move(pieces);
  if (on.last && !on.last->finished)
    what.previous = on.last;
  on.last = made.what;
  on.in->history.push_back(made.what);
  std::erase_if(on.live, [](const auto& each) { return each.lock()->finished; });
  on.live.push_back(made.what);
  for (auto& each : what.pieces) {
    each->of = &what;
    if (std::ranges::find(what.streams, each->on) == what.streams.end())
      what.streams.push_back(each->on);
    match(all, *each);
    if (each->peer != on.rank && on.in->connected.insert({on.rank, each->peer, each->sends}).second)
      made.needs.emplace_back(each->peer, on.rank, !each->sends);
  }
  return made;
}

bool connected(const submission& what) {
  const auto& ends = what.what->of->in->connected;
  return std::ranges::all_of(what.needs, [&](const auto& need) { return ends.contains(need); });
}

void enqueue_locked(engine& all, submission what) {
  std::string label;
  for (const auto& each : what.what->pieces)
    label += (label.empty() ? "" : " and ") + describe(*each);
  for (auto* stream : what.what->streams) {
    auto entry = std::make_shared<operation>();
    entry->kind = operation::kind::nccl;
    entry->label = label;
    entry->transfer = what.what;
    what.what->entries.push_back(entry);
    all.append_locked(*stream, std::move(entry));
  }
}

void drop_locked(nccl_operation& what) {
  if (what.finished)
    return;
  what.finished = true;
  for (auto& each : what.pieces) {
    if (each->match != nullptr && !each->match->done) {
      each->match->match = nullptr;
      each->match->peer_gone = true;
    }
    for (auto* queues : {&what.of->in->sends, &what.of->in->receives})
      for (auto& [direction, queue] : *queues)
        std::erase(queue, each.get());
  }
}

bool transfer_is_done(const nccl_operation& what) {
  return what.finished;
}

bool progress_transfers_locked(engine& all, const std::function<bool(const operation&)>& may_run) {
  bool changed = false;
  for (auto* each : communicators()) {
    while (!each->waiting.empty() && connected(each->waiting.front())) {
      enqueue_locked(all, std::move(each->waiting.front()));
      each->waiting.erase(each->waiting.begin());
      changed = true;
    }
    for (std::size_t i = 0; i < each->live.size(); ++i)
      if (const auto what = each->live[i].lock(); what && !what->finished)
        changed = progress(all, *what, may_run) || changed;
  }
  for (auto& device : all.devices)
    while (!device->transfers.empty()
           && (device->transfers.front().expired() || device->transfers.front().lock()->finished))
      device->transfers.pop_front();
  return changed;
}

void transfer_blockers(const operation& entry, std::vector<operation*>& blockers,
                       std::string& unknown) {
  const auto add = [&](const nccl_operation& other) {
    for (const auto& each : other.entries)
      if (const auto alive = each.lock(); alive && alive.get() != &entry)
        blockers.push_back(alive.get());
  };
  const auto& what = *entry.transfer;
  if (what.finished)
    return;
  for (const auto& each : what.entries)
    if (const auto other = each.lock(); other && other.get() != &entry && !other->arrived)
      blockers.push_back(other.get());
  if (what.previous && !what.previous->finished)
    add(*what.previous);
  auto& all = engine::get();
  if (!what.started && all.model == device_model::one_resident)
    for (const auto& each : all.devices[static_cast<std::size_t>(what.of->device)]->transfers) {
      const auto earlier = each.lock();
      if (earlier.get() == &what)
        break;
      if (earlier && !earlier->finished)
        add(*earlier);
    }
  for (const auto& each : what.pieces) {
    if (each->done)
      continue;
    if (each->match == nullptr)
      unknown += std::string(each->peer_gone ? "an aborted" : "an") + " operation of rank "
               + std::to_string(each->peer) + " for " + describe(*each) + "; ";
    else if (what.started && !each->match->of->started) // else it waits for its own start
      add(*each->match->of);
  }
}

} // namespace sluice::emulation
