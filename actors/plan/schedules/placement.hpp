#pragma once

#include "actors/plan/make_plan.hpp"

/// Where chunks go, and the lanes that follow from nothing else. Schedules start from one of these.
namespace sluice::plan::schedules {

/// Part r on rank r, both lanes in order of the micro-batches.
///
///     rank 0  part 0 --> rank 1  part 1 --> ... --> rank P-1  part P-1
plan straight(const plan_request& wanted);

/// Parts dealt round the ranks V times, part c on rank c mod P; lanes empty.
///
///     rank 0  parts 0, P, 2P ...   rank 1  parts 1, P+1 ...   and back from rank P-1 to rank 0
plan looped(const plan_request& wanted);

/// Down the ranks and up again: parts r and 2P-1-r on rank r; lanes empty. The last part is where
/// the first one is, so the loss is on the rank that has the data.
plan v_shaped(const plan_request& wanted);

/// Two whole pipelines that run towards each other: part r and part P-1-r on rank r; lanes empty.
/// The first half of the micro-batches (the larger one of an odd number) goes down the ranks.
plan two_directions(const plan_request& wanted);

/// Splits every backward: each rank's weight gradients follow in the order of its backwards.
void split_backwards(plan& made);

} // namespace sluice::plan::schedules
