#include <algorithm>
#include <utility>
#include <vector>

#include "actors/plan/schedules/placement.hpp"
#include "actors/plan/schedules/schedules.hpp"
#include "actors/plan/simulate.hpp"

/// Two schedules with less memory than 1F1B, made as their paper makes them: a building block says
/// when, on each rank, the four tasks of one micro-batch run (forwards and backwards of its two
/// chunks); the schedule is the block repeated every six slots, and squeezed. The lanes are the
/// block's tasks sorted by time; the squeezing is what the dispatch rule does anyway.
///
/// Source: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024.
namespace sluice::plan::schedules {

namespace {

constexpr std::int32_t period = 6; // slots a micro-batch: F, B and W of two chunks

/// When the tasks of micro-batch 0 run on a rank; micro-batch m follows 6m slots later.
struct block {
  std::int32_t forward_down; // of chunk 0
  std::int32_t forward_up;   // of chunk 1
  std::int32_t backward_up;  // of chunk 1
  std::int32_t backward_down;

  /// How many activations of half a stage the rank holds at the block's own pace, rounded up.
  std::int32_t activations() const {
    const auto lifespan = (backward_down - forward_down) + (backward_up - forward_up);
    return (lifespan + period - 1) / period;
  }
};

/// A lane of both chunks' tasks by time.
std::vector<lane_entry> by_time(const plan& of, std::int32_t rank, std::int32_t down,
                                std::int32_t up) {
  std::vector<std::pair<std::int32_t, lane_entry>> timed;
  for (std::int32_t m = 0; m < of.micro_batches; ++m) {
    timed.push_back({down + period * m, {.chunk = rank, .micro_batch = m}});
    timed.push_back({up + period * m, {.chunk = of.parts - 1 - rank, .micro_batch = m}});
  }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<lane_entry> lane;
  for (const auto& [when, entry] : timed)
    lane.push_back(entry);
  return lane;
}

/// How the squeezing is bounded: credits beyond the block's own pace, and whether a rank wants
/// forwards as long as it has credits, or backwards whenever there is one. Found by simulation, in
/// the small neighbourhood of the paper's numbers.
struct squeeze {
  std::int32_t slack;
  bool forwards_first;
};

plan from_block(const plan_request& wanted, block (*at_rank)(std::int32_t, std::int32_t),
                squeeze how) {
  auto made = v_shaped(wanted);
  for (std::int32_t r = 0; r < made.ranks; ++r) {
    auto& mine = made.by_rank[r];
    const auto at = at_rank(made.ranks, r);
    mine.forwards = by_time(made, r, at.forward_down, at.forward_up);
    mine.backwards = by_time(made, r, at.backward_down, at.backward_up);
    mine.credits = at.activations() + how.slack;
    mine.warm_up = how.forwards_first ? mine.credits : 0;
  }
  split_backwards(made);
  return made;
}

block v_half_block(std::int32_t ranks, std::int32_t i) {
  const auto shift = ranks % 2 == 0 ? 3 : 0; // or two tasks would meet in one slot
  return {2 * i, 3 * ranks - i - 2, 3 * ranks + shift + 2 * i - 1, 6 * ranks + shift - i - 2};
}

block v_min_block(std::int32_t ranks, std::int32_t i) {
  // Or two tasks would meet in one slot. The paper shifts the backwards alone; shifting the way up
  // too saves two slots of idle time at the same memory.
  const auto shift = ranks % 3 == 0 ? 2 : 0;
  return {i, 2 * ranks + shift - i - 1, 2 * ranks + shift + i, 4 * ranks + 2 * shift - i - 1};
}

} // namespace

/// Half the activations of 1F1B at half its idle time. P = 4, M = 8, F = B = W = 1 a chunk:
///
///     0 | 01     02a.13b.24  ac.3.5bd.4.6ce.5.7df.6.eg.7.fh..g.  h.
///     1 |  01   0  21a.32b.4a.3c.b.54d.c.65e.d.76f.e. 7gf..hg.. h.
///     2 |   0  01  12 a2.3ab.3.4bc.4.5cd.5.6de.6.7ef.7.fg..gh..h.
///     3 |    00  11  22aa.3.3bb.4.4cc.5.5dd.6.6ee.7.7ff..gg..hh..
///
/// Messages that take any time at all cost this schedule 1.5% of its span (P = 8, M = 32), since
/// the squeezed order has tasks whose inputs are due at the very moment; its static order loses
/// 0.2% to 0.9% instead. It still leaves the choice to the rule: under jitter (P = 16, M = 64,
/// latency and patience included) that is 1.6% faster at sigma 0.3 and 3% with a tenth of tasks 4x,
/// at 0.3% slower at sigma 0.1; no other warm-up level, credits or backward lead near these did
/// better.
///
/// Cost: a rank idles (F + B + W)(P-1)/2, that is 1.5(P-1) with equal times; it holds
/// floor((P+2)/2) activations.
plan v_half(const plan_request& wanted) {
  return from_block(wanted, v_half_block, {1, wanted.stages % 2 == 0});
}

/// A third of the activations of 1F1B. P = 4, M = 8, F = B = W = 1 a chunk:
///
///     0 | 01     0a2.  1ba.3.2cb.4.3dc.5.4ed.6.5fe.7.6gf.. 7hg..   h.
///     1 |  0    01 a. 12ab..23bc..34cd..45de..56ef..67fg..7 gh..  h.
///     2 |   0  0  1 a1.a2.b2.b3.c3.c4.d4.d5.e5.e6.f6.f7.g7.g. h. h.
///     3 |    00    11aa..22bb..33cc..44dd..55ee..66ff..77gg..  hh..
///
/// Left to choose, the rule is up to a fifth slower here under jitter than its own static order:
/// with this few credits, one task out of turn holds up the rank before. So the plan carries one
/// fixed order, taken from a simulation with equal times; unless the caller gives it credits.
///
/// Cost: a rank idles 2(P-1) - 0.5 with equal times; it holds floor((P+4)/3) activations.
plan v_min(const plan_request& wanted) {
  const auto slack = wanted.stages % 3 == 2 ? 2 : 1;
  const auto free = from_block(wanted, v_min_block, {slack, false});
  return wanted.credits ? free : freeze(free, simulate(free));
}

} // namespace sluice::plan::schedules
