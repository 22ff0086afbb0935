#pragma once

#include <vector>

#include "actors/model_layout.hpp"
#include "actors/plan/plan.hpp"
#include "net/tcp.hpp"

namespace sluice::actors {

/// All edges of a run, in one order whoever asks, with as many receive slots as credits let be
/// under way in a training step: so a step waits for no slot, and what lies at a receiver is
/// bounded by the plan. The trainer is the rank after the last.
std::vector<net::tcp_edge> run_edges(const plan::plan& of,
                                     const std::vector<shared_parameter>& shared);

} // namespace sluice::actors
