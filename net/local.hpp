#pragma once

#include <memory>

#include "net/endpoint.hpp"

namespace sluice::net {

/// Channels between the ranks of one process: a send hands the buffers over, without a copy where
/// the sender kept no handle of its own. Buffers in flight are bounded by the senders' credits.
/// ranks: all of them, the trainer's included.
std::unique_ptr<network> make_local_network(std::int32_t ranks);

} // namespace sluice::net
