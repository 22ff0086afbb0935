#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/messages.hpp"

namespace sluice::actors {

/// Puts offered transfers into groups, in the order in which they go.
///
/// Offers keep their order; one that another in the opposite direction waits for goes with that, as
/// one group: alone each would hold up the other on a device that runs one at a time, were the
/// order not the same everywhere, and together they use both directions of the link.
std::vector<std::vector<net::offer>> in_groups(std::vector<net::offer> offers);

/// Gives the transfers of a network that needs it one total order.
///
/// A transfer is committed only when its sender has it ready, and both ends hear of all groups that
/// concern them in the same order, since messages between two actors keep theirs. So no cycle of
/// transfers can form, even where a GPU runs one at a time, in the order of its host's calls.
/// What has been offered by the time that a commit is due goes together.
///
/// Thread: pooled; never waits. Cost: a message there and one back before each transfer.
class sequencer_state {
public:
  static constexpr const char* name = "sluice.sequencer";

  explicit sequencer_state(caf::event_based_actor* self) : self_(self) {}

  caf::behavior make_behavior();

private:
  void on_offer(const transfer_ready& message);
  void on_commit();

  caf::event_based_actor* self_;
  std::map<std::int32_t, caf::actor> stages_;
  std::vector<net::offer> offers_;
  bool commit_due_ = false;
};

/// It is told each stage by its rank: anon_tell(sequencer, sequenced_stage{rank}, stage).
caf::actor spawn_sequencer(caf::actor_system& system);

} // namespace sluice::actors
