#pragma once

#include <cstddef>
#include <vector>

#include "bench/measurement.hpp"
#include "bench/workshop.hpp"

namespace sluice::bench {

/// How fast tensors of 64 KiB, 1 MiB and 16 MiB pass over one edge with four slots between two
/// networks on this host: over TCP, over a Unix-domain socket, with checksums, with TLS; and what
/// two plain threads with blocking sockets and four buffers reach. Peer: iperf with blocks of the
/// same size, where it is installed. All are measured in turn in every round, so that a machine
/// that is busy with other things is so for all of them.
/// Units: GB/s. Errors: std::runtime_error.
std::vector<measurement> measure_transfers(const workshop& in, std::size_t rounds);

} // namespace sluice::bench
