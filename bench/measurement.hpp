#pragma once

#include <string>

namespace sluice::bench {

/// One line of a benchmark: a value, and what it is compared with.
struct measurement {
  std::string name;
  double value = 0;
  std::string unit;
  std::string peer; ///< what `peer_value` is of; empty: nothing to compare with
  double peer_value = 0;

  double ratio() const { return peer_value != 0 ? value / peer_value : 0; }
};

} // namespace sluice::bench
