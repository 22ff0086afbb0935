#pragma once

#include <nlohmann/json.hpp>

#include "bench/measurement.hpp"

namespace sluice::bench {

/// The keys that every benchmark has: name, value, unit, peer, peer_value, ratio.
inline nlohmann::json to_json(const measurement& line) {
  nlohmann::json all{{"name", line.name}, {"value", line.value}, {"unit", line.unit}};
  const bool compared = !line.peer.empty();
  all["peer"] = compared ? nlohmann::json(line.peer) : nlohmann::json();
  all["peer_value"] = compared ? nlohmann::json(line.peer_value) : nlohmann::json();
  all["ratio"] = compared ? nlohmann::json(line.ratio()) : nlohmann::json();
  return all;
}

} // namespace sluice::bench
