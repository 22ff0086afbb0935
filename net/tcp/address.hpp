#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::net {

/// Where a process is reached: a TCP port or, on one host, a Unix-domain socket.
struct address {
  std::string host;       ///< a name or number; empty for a Unix-domain socket
  std::uint16_t port = 0; ///< 0 to listen: any free one
  std::string path;       ///< of the Unix-domain socket

  bool is_unix() const noexcept { return !path.empty(); }
};

/// Reads "host:port", "[::1]:port" or "unix:/path".
/// Errors: std::invalid_argument, which says what is wrong.
address parse_address(std::string_view text);

/// As parse_address() reads it.
std::string to_string(const address& of);

} // namespace sluice::net
