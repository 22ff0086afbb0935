#pragma once

#include <cstddef>
#include <vector>

#include "bench/measurement.hpp"
#include "bench/workshop.hpp"

namespace sluice::bench {

/// How many control messages per second pass between two actor systems over the loopback: a trainer
/// asks `describe`, a stage answers `description`. One question at a time, and with 64 under way;
/// without and with TLS. Peer: the same two actors in one system, measured in turn in every round.
/// Errors: std::runtime_error.
std::vector<measurement> measure_control_messages(const workshop& in, std::size_t rounds);

} // namespace sluice::bench
