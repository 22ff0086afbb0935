#include "actors/plan/dispatch.hpp"

#include <algorithm>

namespace sluice::plan {

namespace {

std::int32_t count(const std::vector<lane_entry>& lane) {
  return static_cast<std::int32_t>(lane.size());
}

std::size_t started(const rank_progress& now) {
  return static_cast<std::size_t>(now.forwards_started) + now.backwards_started
       + now.weights_started + now.updates_started;
}

/// What the rank is after: a forward below its warm-up level, else a backward.
bool wants_a_forward(const rank_plan& mine, const rank_progress& now) {
  const bool forward_left = now.forwards_started < count(mine.forwards);
  const bool backward_left = now.backwards_started < count(mine.backwards);
  const auto under_way = now.forwards_started - now.backwards_started;
  return forward_left && (!backward_left || under_way < mine.warm_up);
}

} // namespace

std::optional<task_kind> dispatch(const rank_plan& mine, const rank_progress& now) {
  const bool forward_left = now.forwards_started < count(mine.forwards);
  const bool backward_left = now.backwards_started < count(mine.backwards);
  const bool credit_free = now.activations_held < mine.credits;
  const bool forward_can_go = forward_left && now.forward_here && credit_free;
  const bool backward_can_go = backward_left && now.backward_here;
  const bool weight_can_go = now.weights_started < count(mine.weights) && now.weight_here;
  const bool update_can_go = now.updates_started < count(mine.updates) && now.update_here;

  // A table from a file, or one that a simulation made: no choice is left.
  if (!mine.order.empty()) {
    const bool can_go[] = {forward_can_go, backward_can_go, weight_can_go, update_can_go};
    const auto next = started(now);
    if (next >= mine.order.size() || !can_go[static_cast<std::size_t>(mine.order[next])])
      return std::nullopt;
    return mine.order[next];
  }

  // New weights first: forwards wait for them, and a version of the old ones can go.
  if (update_can_go)
    return task_kind::update;

  const auto under_way = now.forwards_started - now.backwards_started;
  const bool wants_forward = wants_a_forward(mine, now);

  // Only a credit is missing, and a weight gradient would free it.
  if (wants_forward && now.forward_here && !credit_free && weight_can_go)
    return task_kind::weight;
  if (wants_forward ? forward_can_go : backward_can_go)
    return wants_forward ? task_kind::forward : task_kind::backward;
  if (mine.stand_in && !wants_forward && forward_can_go)
    return task_kind::forward;
  if (mine.stand_in && wants_forward && backward_can_go
      && under_way >= mine.warm_up - mine.backward_lead)
    return task_kind::backward;
  if (weight_can_go)
    return task_kind::weight;
  return std::nullopt;
}

bool is_stand_in(const rank_plan& mine, const rank_progress& now) {
  if (!mine.order.empty())
    return false;
  if (wants_a_forward(mine, now))
    return !now.forward_here;
  return now.backwards_started < count(mine.backwards) && !now.backward_here;
}

double patient_for(double patience, double last_task) {
  return std::min(patience, last_task / 10);
}

bool all_started(const rank_plan& mine, const rank_progress& now) {
  return static_cast<std::int64_t>(started(now)) == mine.tasks();
}

} // namespace sluice::plan
