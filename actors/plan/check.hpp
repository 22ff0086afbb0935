#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/plan/plan.hpp"

namespace sluice::plan {

/// Why a task may have to come after another one. None of these is a choice, which is why liveness
/// does not depend on timing.
enum class reason : std::uint8_t {
  input,        ///< its input comes from there; B at the end of a route: its own F
  lane,         ///< before it in the lane
  credit,       ///< frees the activation that it needs
  order,        ///< before it in the merged order of a rank without stand-in, or in the fixed order
  weights,      ///< F: the update that makes its version; U: a gradient that it applies
  sum,          ///< adds to the same gradient before it, so that the order of the sum is fixed
  receive_slot, ///< takes the output that holds the slot for its own
};

/// One edge of the graph, between tasks that have not run.
struct wait {
  task waiting = {};
  task on = {};
  reason why = reason::input;
};

/// What check() says of a plan.
struct verdict {
  bool live = false;       ///< whether every execution finishes, whatever the timing
  std::vector<wait> cycle; ///< if it cannot finish: each waits on the next, the last on the first
  std::vector<std::string> shape_errors; ///< what makes it no plan at all; nothing else is checked
  std::string text;                      ///< all of this in words, one line a task
  /// By rank: activations that it holds at most, whatever the timing; of one chunk each.
  std::vector<std::int32_t> most_activations = {};
  /// By rank: versions of a chunk's weights that it keeps at most; 1 in synchronous plans.
  std::vector<std::int32_t> most_versions = {};
};

/// Decides before the first byte moves whether a plan can finish, by one topological sort over its
/// tasks: data, lane, credit, order, weight-version and receive-slot edges. If the sort takes all
/// tasks, some task can always run; if it stops short, every execution stops there, and the tasks
/// that wait for each other are named.
///
/// Cost: time linear in the tasks; 2 bytes for each micro-batch of each chunk.
verdict check(const plan& of);

/// What is wrong with a plan's data: micro-batches that a chunk lacks or has twice, ranks out of
/// range and so on. Empty for everything that make_plan() returns.
std::vector<std::string> shape_errors(const plan& of);

} // namespace sluice::plan
