#include "bench/rounds.hpp"

#include <algorithm>

namespace sluice::bench {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

measurement compare(const series& of, const std::string& unit, const series& peer) {
  measurement line{.name = of.name, .value = median(of.by_round), .unit = unit, .peer = {}};
  if (peer.by_round.empty())
    return line;
  std::vector<double> ratios;
  for (std::size_t round = 0; round < of.by_round.size(); ++round)
    ratios.push_back(of.by_round[round] / peer.by_round[round]);
  line.peer = peer.name;
  line.peer_value = median(peer.by_round);
  line.paired_ratio = median(ratios);
  return line;
}

} // namespace sluice::bench
