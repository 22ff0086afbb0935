#pragma once

#include <optional>
#include <string>

namespace sluice::bench {

/// One line of a benchmark: a value, and what it is compared with.
struct measurement {
  std::string name;
  double value = 0;
  std::string unit;
  std::string peer; ///< what `peer_value` is of; empty: nothing to compare with
  double peer_value = 0;
  /// The median of the ratios within each round, where both were measured in turn in every round.
  std::optional<double> paired_ratio = {};

  double ratio() const { return paired_ratio.value_or(peer_value != 0 ? value / peer_value : 0); }
};

} // namespace sluice::bench
