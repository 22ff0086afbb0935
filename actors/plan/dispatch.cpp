#include "actors/plan/dispatch.hpp"

namespace sluice::plan {

namespace {

/// The fixed order of a plan that has one: its next task, or nothing until that one can run.
std::optional<task_kind> next_in_order(const rank_plan& mine, const rank_progress& now,
                                       bool forward_can_go, bool weight_waits) {
  const auto started = static_cast<std::size_t>(now.forwards_started) + now.backwards_started
                       + now.weights_started;
  if (started >= mine.order.size())
    return std::nullopt;
  const auto kind = mine.order[started];
  const bool can_go = kind == task_kind::forward    ? forward_can_go
                      : kind == task_kind::backward ? now.backward_here
                                                    : weight_waits;
  return can_go ? std::optional{kind} : std::nullopt;
}

} // namespace

std::optional<task_kind> dispatch(const rank_plan& mine, const rank_progress& now) {
  const auto forwards = static_cast<std::int32_t>(mine.forwards.size());
  const auto backwards = static_cast<std::int32_t>(mine.backwards.size());
  const bool forward_left = now.forwards_started < forwards;
  const bool backward_left = now.backwards_started < backwards;
  const bool credit_free = now.activations_held < mine.credits;
  const bool weight_waits = now.weights_started < now.weights_ready;
  const bool forward_can_go = forward_left && now.forward_here && credit_free;
  const bool backward_can_go = backward_left && now.backward_here;

  if (!mine.order.empty())
    return next_in_order(mine, now, forward_can_go, weight_waits);

  const bool wants_forward
    = forward_left
      && (!backward_left || now.forwards_started - now.backwards_started < mine.warm_up);

  // Only a credit is missing, and a weight gradient would free it.
  if (wants_forward && now.forward_here && !credit_free && weight_waits)
    return task_kind::weight;
  if (wants_forward ? forward_can_go : backward_can_go)
    return wants_forward ? task_kind::forward : task_kind::backward;
  if (mine.stand_in && (wants_forward ? backward_can_go : forward_can_go))
    return wants_forward ? task_kind::backward : task_kind::forward;
  if (weight_waits)
    return task_kind::weight;
  return std::nullopt;
}

bool all_started(const rank_plan& mine, const rank_progress& now, bool split_backward) {
  const auto backwards = static_cast<std::int32_t>(mine.backwards.size());
  return now.forwards_started == static_cast<std::int32_t>(mine.forwards.size())
         && now.backwards_started == backwards
         && (!split_backward || now.weights_started == backwards);
}

} // namespace sluice::plan
