#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "net/transfer.hpp"

namespace sluice::net {

/// The chunk of an edge whose transfers are not told apart by chunk.
inline constexpr std::int32_t every_chunk = -1;

/// The transfers that share one set of receive slots and keep their order: one payload kind from
/// one rank into one chunk of another. Edges never wait for each other, so between processes each
/// has a stream of its own.
///
/// Of twins and states the transfer's chunk is an index of parameters; they share one edge per pair
/// of ranks.
struct edge {
  net::payload payload = payload::activation;
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t chunk = 0;

  auto operator<=>(const edge&) const = default; ///< the canonical order
};

/// The edge that a transfer takes.
edge edge_of(const transfer& what);

/// "the gradients for chunk 1, from rank 2 to rank 1"
std::string to_string(const edge& which);

} // namespace sluice::net
