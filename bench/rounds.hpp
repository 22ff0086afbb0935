#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bench/measurement.hpp"

namespace sluice::bench {

/// What was measured under one name in each of several rounds.
struct series {
  std::string name;
  std::vector<double> by_round = {};
};

/// How long a call takes. Units: seconds.
template <class Function>
double seconds_of(Function run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values);

/// Medians, and the median of the ratios within the rounds: a machine that is busy with other
/// things is so for both. peer: without rounds there is nothing to compare with.
measurement compare(const series& of, const std::string& unit, const series& peer);

} // namespace sluice::bench
