#pragma once

#include <vector>

#include "net/tcp.hpp"

namespace sluice::net::test {

/// What a test (rank 0) and its peer process (rank 1) have between them.
inline std::vector<tcp_edge> peer_edges() {
  return {{{payload::activation, 0, 1, 1}, 4, {}}, {{payload::gradient, 1, 0, 0}, 4, {}}};
}

} // namespace sluice::net::test
