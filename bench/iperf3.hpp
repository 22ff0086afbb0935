#pragma once

#include <cstddef>
#include <string>

namespace sluice::bench {

/// iperf3, a known tool that measures what TCP carries, where it is installed.
class iperf3 {
public:
  /// Looks for it in PATH.
  iperf3();

  bool is_there() const noexcept { return !path_.empty(); }

  /// The largest block that it takes.
  static constexpr std::size_t largest_block_bytes = std::size_t{1} << 20;

  /// How fast `volume_bytes` pass over the loopback in blocks of `block_bytes`. Units: bytes/s, as
  /// the receiver counts them. Errors: std::runtime_error with what iperf3 says.
  double bytes_per_second(std::size_t block_bytes, std::size_t volume_bytes) const;

private:
  std::string path_;
};

} // namespace sluice::bench
