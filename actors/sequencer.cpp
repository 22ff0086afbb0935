#include "actors/sequencer.hpp"

#include <algorithm>

#include <caf/actor_system.hpp>

#include "actors/caf_compat.hpp"

namespace sluice::actors {

std::vector<std::vector<net::offer>> in_groups(std::vector<net::offer> offers) {
  std::vector<std::vector<net::offer>> groups;
  for (auto& each : offers) {
    // The first group of one whose transfer goes the opposite way, unless an earlier transfer of
    // this direction still stands alone: those of one direction keep their order.
    const auto alone = [&](std::int32_t from, std::int32_t to) {
      return std::ranges::find_if(groups, [&](const auto& group) {
        return group.size() == 1 && group[0].what.from == from && group[0].what.to == to;
      });
    };
    const auto opposite = alone(each.what.to, each.what.from);
    if (opposite != groups.end() && alone(each.what.from, each.what.to) == groups.end())
      opposite->push_back(std::move(each));
    else
      groups.push_back({std::move(each)});
  }
  return groups;
}

caf::behavior sequencer_state::make_behavior() {
  return {
    [this](const sequenced_stage& which, const caf::actor& stage) { stages_[which.rank] = stage; },
    [this](const transfer_ready& message) { on_offer(message); },
    [this](const commit_due&) { on_commit(); },
  };
}

void sequencer_state::on_offer(const transfer_ready& message) {
  offers_.push_back(message.what);
  if (std::exchange(commit_due_, true))
    return;
  // Behind what is in the mailbox by now.
  compat::tell(self_, caf::actor_cast<caf::actor>(self_), commit_due{});
}

void sequencer_state::on_commit() {
  commit_due_ = false;
  for (auto& group : in_groups(std::exchange(offers_, {}))) {
    std::vector<std::int32_t> ranks;
    for (const auto& each : group)
      for (const auto rank : {each.what.from, each.what.to})
        if (std::ranges::find(ranks, rank) == ranks.end())
          ranks.push_back(rank);
    for (const auto rank : ranks)
      if (const auto found = stages_.find(rank); found != stages_.end())
        compat::tell(self_, found->second, transfers_committed{group});
  }
}

caf::actor spawn_sequencer(caf::actor_system& system) {
  return system.spawn<caf::stateful_actor<sequencer_state>>();
}

} // namespace sluice::actors
