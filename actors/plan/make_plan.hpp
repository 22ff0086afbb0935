#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>

#include "actors/plan/plan.hpp"

namespace sluice::plan {

/// What a schedule is made for.
struct plan_request {
  std::int32_t stages = 1;                  ///< P: ranks
  std::int32_t micro_batches = 1;           ///< M, of one step
  std::optional<std::int32_t> chunks = {};  ///< V a rank; the schedule's own by default
  std::optional<std::int32_t> credits = {}; ///< of every rank; the schedule's own by default
  std::int32_t receive_slots = 0;           ///< see plan::receive_slots
  bool forward_only = false;                ///< for evaluation: the same lanes, no backwards
};

/// A request that no plan can be made for; the message says which number is wrong and what would
/// be right.
struct plan_error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// A schedule by name: the lanes, warm-up levels and credits for a request.
struct schedule {
  std::string_view name;
  std::string_view brief; ///< one line for a list
  std::int32_t chunks;    ///< V by default
  bool chunks_free;       ///< whether another V can be asked for
  plan (*make)(const plan_request&);
};

/// All that ship, in the order in which a list shows them.
std::span<const schedule> all_schedules();

/// The plan of a schedule, or of a table of actions: "file:PATH" (see action_table.hpp), where 0
/// stages or micro-batches mean as many as the table has. It is not checked here: with credits of
/// the caller's own it may be one that cannot finish, which check() tells.
///
/// Errors: plan_error for an unknown schedule (with the names that are known) and for numbers that
/// the schedule cannot have.
plan make_plan(std::string_view schedule, const plan_request& wanted);

/// The same placement and forward lanes without backwards, for evaluation and inference.
plan forward_only(plan training);

/// The same for another number of micro-batches, as an evaluation may have.
/// Errors: plan_error if the plan is none of all_schedules() and the number differs from its own.
plan forward_only(const plan& training, std::int32_t micro_batches);

} // namespace sluice::plan
