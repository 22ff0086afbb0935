#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "actors/plan/plan.hpp"
#include "net/endpoint.hpp"

// Bugs put in on purpose: the self-test of the tester. All of them are between or before the
// actors, which run as they are; each strikes now and then, as bugs do, by the trial's seed.

namespace sluice::stress {

enum class seeded_bug : std::uint8_t {
  none,
  lost_message,    ///< a payload between two stages never arrives
  credit_too_few,  ///< a rank has one credit less than the plan that was checked
  credit_too_many, ///< or one more, and so holds more than it should
  swapped_payload, ///< two payloads of one edge come under each other's names
  early_reuse,     ///< a sender's buffer is overwritten before the channel has read it
  unordered_lane,  ///< two entries of a lane change places after the check
};

struct named_bug {
  seeded_bug bug;
  std::string_view name; ///< "lost-message"
  std::string_view what; ///< one line for a list
};

/// All but none.
std::span<const named_bug> all_seeded_bugs();

/// "none" for none.
std::string_view name_of(seeded_bug bug);

/// Those bugs that change a plan once it is checked. The plan may be one that cannot finish.
void break_plan(plan::plan& checked, seeded_bug bug, std::uint64_t seed);

/// Those that strike on the way: a network that treats some transfers between stages so.
/// stages: how many ranks are no trainer.
std::shared_ptr<net::network> break_network(std::shared_ptr<net::network> inner, seeded_bug bug,
                                            std::int32_t stages, std::uint64_t seed);

} // namespace sluice::stress
