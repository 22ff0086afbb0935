#pragma once

#include <cstddef>
#include <string>

namespace sluice::bench {

/// iperf 2, a known tool that measures what TCP carries, where it is installed. Not iperf3, which
/// is as fast but takes no blocks above 1 MiB: a copy of 16 MiB leaves the caches, and is to be
/// compared with one that does so, too.
class iperf {
public:
  /// Looks for it in PATH.
  iperf();

  bool is_there() const noexcept { return !path_.empty(); }

  /// How fast `volume_bytes` pass over the loopback in blocks of `block_bytes`. Units: bytes/s, as
  /// the sender counts them. Errors: std::runtime_error with what iperf says, or if it takes more
  /// than a minute.
  double bytes_per_second(std::size_t block_bytes, std::size_t volume_bytes) const;

private:
  std::string path_;
};

} // namespace sluice::bench
