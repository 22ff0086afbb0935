// Who waits for whom: what a lazy schedule must run, and the proof of a deadlock.

#include <algorithm>
#include <functional>
#include <map>

#include "tests/emulation/engine.hpp"

namespace sluice::emulation {

std::string describe(const operation& what) {
  return "device " + std::to_string(what.on->device) + ", stream " + std::to_string(what.on->id)
       + ": " + what.label;
}

std::vector<operation*> blockers_of(const operation& what, std::string& unknown) {
  std::vector<operation*> result;
  const auto& queue = what.on->pending;
  if (!queue.empty() && queue.front().get() != &what) {
    const auto mine = std::ranges::find_if(queue, [&](const auto& q) { return q.get() == &what; });
    if (mine != queue.end()) // else it is done
      result.push_back(std::prev(mine)->get());
    if (mine == queue.end())
      return result;
  }
  if (what.kind == operation::kind::wait && what.point && !what.point->done)
    if (const auto record = what.point->record.lock())
      result.push_back(record.get());
  if (what.kind == operation::kind::nccl)
    transfer_blockers(what, result, unknown);
  return result;
}

std::vector<const operation*> needed_for(const std::vector<operation_ptr>& targets) {
  std::vector<const operation*> found;
  std::vector<const operation*> open;
  for (const auto& each : targets)
    if (each)
      open.push_back(each.get());
  while (!open.empty()) {
    const auto* next = open.back();
    open.pop_back();
    const auto place = std::ranges::lower_bound(found, next);
    if (place != found.end() && *place == next)
      continue;
    found.insert(place, next);
    std::string unknown;
    for (const auto* each : blockers_of(*next, unknown))
      open.push_back(each);
  }
  return found;
}

std::string find_cycle(const engine& of) {
  enum class color : std::uint8_t { unseen, on_path, finished };
  std::map<const operation*, color> colors;
  std::vector<const operation*> path;
  std::string cycle;
  const std::function<bool(const operation*)> visit = [&](const operation* at) {
    colors[at] = color::on_path;
    path.push_back(at);
    std::string unknown;
    for (const auto* next : blockers_of(*at, unknown)) {
      if (colors[next] == color::on_path) {
        for (auto each = std::ranges::find(path, next); each != path.end(); ++each)
          cycle += "  " + describe(**each) + "\n    waits for\n";
        cycle += "  " + describe(*next) + ", which closes the cycle\n";
        return true;
      }
      if (colors[next] == color::unseen && visit(next))
        return true;
    }
    colors[at] = color::finished;
    path.pop_back();
    return false;
  };
  for (const auto& device : of.devices)
    for (const auto& stream : device->streams)
      if (!stream->pending.empty() && colors[stream->pending.front().get()] == color::unseen
          && visit(stream->pending.front().get()))
        return cycle;
  return {};
}

std::string describe_standstill(const engine& of) {
  std::string text;
  for (const auto& device : of.devices)
    for (const auto& stream : device->streams) {
      if (stream->pending.empty())
        continue;
      std::string unknown;
      blockers_of(*stream->pending.front(), unknown);
      text += "  " + describe(*stream->pending.front())
            + (unknown.empty() ? "" : ", waits for " + unknown) + "\n";
    }
  for (const auto* wait : of.waits)
    text += "  a host thread in " + wait->what + "\n";
  return text;
}

} // namespace sluice::emulation
