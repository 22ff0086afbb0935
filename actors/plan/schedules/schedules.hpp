#pragma once

#include "actors/plan/make_plan.hpp"

/// The schedules, one file each. A new one is a file beside these, a line here and a line in the
/// table of make_plan.cpp; nothing that runs plans changes.
///
/// Each takes a request whose numbers are in range (`chunks` is set) and sets the lanes, the
/// warm-up levels and the credits. In their comments P is the number of ranks, M of micro-batches,
/// V of chunks a rank, r a rank; the pictures have unit times, one row a rank, forwards as digits
/// and backwards as letters (a is the backward of micro-batch 0), weight gradients as '.'.
namespace sluice::plan::schedules {

plan gpipe(const plan_request& wanted);
plan one_f_one_b(const plan_request& wanted);
plan interleaved(const plan_request& wanted);
plan zb_h1(const plan_request& wanted);
plan zb_h2(const plan_request& wanted);
plan interleaved_zb(const plan_request& wanted);
plan zb_v(const plan_request& wanted);
plan v_half(const plan_request& wanted);
plan v_min(const plan_request& wanted);
plan dual_pipe(const plan_request& wanted);
plan dual_pipe_v(const plan_request& wanted);
plan pipe_dream(const plan_request& wanted);
plan pipe_dream_2bw(const plan_request& wanted);

} // namespace sluice::plan::schedules
