#include "bench/step.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "bench/gpt_case.hpp"
#include "bench/rounds.hpp"
#include "bench/torch_step.hpp"

namespace sluice::bench {

namespace {

struct contender_line {
  unsigned threads; ///< of the peer
  actors::pipeline line;
  series steps;
  series speed;
  series peer_steps;
  series peer_speed;
};

contender_line make_line(std::int32_t stages, unsigned threads, const std::string& peer) {
  const auto name = fmt::format("default GPT, {} stage{}", stages, stages > 1 ? "s" : "");
  const auto whose = fmt::format("{}, {} thread{}", peer, threads, threads > 1 ? "s" : "");
  return {threads, make_pipeline({}, "1f1b", stages), {name}, {name}, {whose}, {whose}};
}

} // namespace

std::vector<measurement> measure_step(int rounds, const std::string& python) {
  const gpt_case of;
  const auto data = make_batch(of);
  torch_step peer(python, of);
  const auto cores = std::clamp(std::thread::hardware_concurrency(), 1u, 4u);
  std::vector<contender_line> all;
  all.push_back(make_line(1, 1, peer.version()));
  all.push_back(make_line(4, cores, peer.version()));
  const auto tokens = static_cast<double>(of.tokens());
  for (int round = -2; round < rounds; ++round) // two to warm up
    for (auto& each : all) {
      const auto ours = seconds_of([&] { each.line.step(data); });
      const auto theirs = peer.here() ? peer.seconds(each.threads) : 0;
      if (round < 0)
        continue;
      each.steps.by_round.push_back(ours);
      each.speed.by_round.push_back(tokens / ours);
      if (!peer.here())
        continue;
      each.peer_steps.by_round.push_back(theirs);
      each.peer_speed.by_round.push_back(tokens / theirs);
    }
  std::vector<measurement> lines;
  for (const auto& each : all) {
    lines.push_back(compare(each.steps, "s/step", each.peer_steps));
    lines.push_back(compare(each.speed, "tokens/s", each.peer_speed));
  }
  return lines;
}

} // namespace sluice::bench
