#pragma once

#include <cstddef>
#include <iosfwd>

namespace sluice::bench {

/// Prints how fast tensors pass over one edge between two networks on this host, as ratios of what
/// a plain sender and receiver reach over the loopback with buffers of the same size; plain, with
/// checksums, with TLS, and over a Unix-domain socket. All are measured in turn in every round, so
/// that a machine that is busy with other things is so for all of them; ratios are medians of
/// those within a round. Where iperf3 is installed its figure stands beside.
/// Errors: std::runtime_error.
void net_throughput(std::ostream& to, std::size_t rounds);

} // namespace sluice::bench
