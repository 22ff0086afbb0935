#include "net/edge.hpp"

#include <array>

#include <fmt/format.h>

namespace sluice::net {

edge edge_of(const transfer& what) {
  const bool one_for_all = what.payload == payload::twin || what.payload == payload::state;
  return {what.payload, what.from, what.to, one_for_all ? every_chunk : what.chunk};
}

std::string to_string(const edge& which) {
  static constexpr std::array names{"activations", "gradients", "inputs", "targets",
                                    "outputs",     "twins",     "states"};
  const auto* kind = names.at(static_cast<std::size_t>(which.payload));
  if (which.chunk == every_chunk)
    return fmt::format("the {} from rank {} to rank {}", kind, which.from, which.to);
  return fmt::format("the {} for chunk {}, from rank {} to rank {}", kind, which.chunk, which.from,
                     which.to);
}

} // namespace sluice::net
