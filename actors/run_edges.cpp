#include "actors/run_edges.hpp"

#include <algorithm>
#include <map>

namespace sluice::actors {

using net::payload;

namespace {

/// Of what the trainer sends or takes as it comes: enough that nobody waits for a round trip.
constexpr std::uint32_t few = 4;

std::int32_t rank_of(const plan::plan& of, std::int32_t chunk) {
  return of.chunks[static_cast<std::size_t>(chunk)].rank;
}

/// The most transfers of one chunk that can be under way: each holds an activation of `rank`.
std::uint32_t under_way(const plan::plan& of, std::int32_t rank) {
  const auto credits = of.by_rank[static_cast<std::size_t>(rank)].credits;
  return static_cast<std::uint32_t>(std::clamp(credits, 1, of.micro_batches));
}

void add_route(std::vector<net::tcp_edge>& to, const plan::plan& of,
               const std::vector<std::int32_t>& route) {
  const auto trainer = of.ranks;
  const auto first = route.front();
  const auto last = route.back();
  to.push_back({{payload::input, trainer, rank_of(of, first), first}, few});
  to.push_back({{payload::target, trainer, rank_of(of, last), last}, few});
  to.push_back({{payload::output, rank_of(of, last), trainer, last}, few});
  for (std::size_t i = 0; i + 1 < route.size(); ++i) {
    const auto near = rank_of(of, route[i]);
    const auto far = rank_of(of, route[i + 1]);
    if (near == far)
      continue;
    to.push_back({{payload::activation, near, far, route[i + 1]}, under_way(of, near)});
    if (!of.forward_only)
      to.push_back({{payload::gradient, far, near, route[i]}, under_way(of, near)});
  }
}

/// A holder's accumulators go to every other rank that holds the parameter; they are taken all
/// together.
void add_twins(std::vector<net::tcp_edge>& to, const std::vector<shared_parameter>& shared) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::uint32_t> counts;
  for (const auto& each : shared)
    for (const auto& holder : each.holders)
      for (const auto other : each.other_ranks(holder.rank))
        ++counts[{holder.rank, other}];
  for (const auto& [pair, count] : counts)
    to.push_back({{payload::twin, pair.first, pair.second, net::every_chunk}, count});
}

} // namespace

std::vector<net::tcp_edge> run_edges(const plan::plan& of,
                                     const std::vector<shared_parameter>& shared) {
  std::vector<net::tcp_edge> edges;
  for (const auto& route : of.routes)
    add_route(edges, of, route);
  add_twins(edges, shared);
  for (std::int32_t rank = 0; rank < of.ranks; ++rank) {
    edges.push_back({{payload::state, rank, of.ranks, net::every_chunk}, few});
    edges.push_back({{payload::state, of.ranks, rank, net::every_chunk}, few});
  }
  std::ranges::sort(edges, {}, &net::tcp_edge::edge);
  return edges;
}

} // namespace sluice::actors
