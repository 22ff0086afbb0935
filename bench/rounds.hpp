#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/measurement.hpp"

namespace sluice::bench {

/// What was measured under one name in each of several rounds.
struct series {
  std::string name;
  std::vector<double> by_round = {};
};

double median(std::vector<double> values);

/// Medians, and the median of the ratios within the rounds: a machine that is busy with other
/// things is so for both. peer: without rounds there is nothing to compare with.
measurement compare(const series& of, const std::string& unit, const series& peer);

} // namespace sluice::bench
