#include "actors/plan/search.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "actors/plan/check.hpp"
#include "actors/plan/make_plan.hpp"

namespace sluice::plan {

namespace {

constexpr double negligible = 1e-9;

double sum(const std::vector<layer_costs>& layers, const layer_range& range,
           double layer_costs::*what) {
  double total = 0;
  for (auto i = range.begin; i < range.end; ++i)
    total += layers[i].*what;
  return total;
}

std::vector<layer_range> cut(const plan& made, const search_request& wanted) {
  std::vector<double> costs;
  for (const auto& layer : wanted.layers)
    costs.push_back(layer.forward + layer.backward + layer.weight);
  std::vector<double> speeds(made.parts, std::numeric_limits<double>::infinity());
  for (const auto& place : made.chunks) // a part with replicas is as slow as the slower one
    speeds[place.part] = std::min(speeds[place.part], wanted.devices[place.rank].speed);
  return partition(costs, speeds);
}

/// Bytes of a chunk's activation: all of it, or only its input where the rank recomputes.
double activation_bytes(const proposal& of, const search_request& wanted, std::size_t chunk) {
  const auto part = of.made.chunks[chunk].part;
  const auto& range = of.parts[part];
  if (of.recomputes[of.made.chunks[chunk].rank])
    return of.merged
         * (range.begin > 0 ? wanted.layers[range.begin - 1].output_bytes
                            : wanted.layers.front().output_bytes);
  return of.merged * sum(wanted.layers, range, &layer_costs::activation_bytes);
}

/// What a rank needs at most: its states, all activations at the size of its largest chunk, and,
/// where it recomputes, the one whole activation that it works on.
double bytes_needed(const proposal& of, const search_request& wanted, const verdict& bounds,
                    std::int32_t rank) {
  double states = 0;
  double largest = 0;
  double working = 0;
  for (std::size_t c = 0; c < of.made.chunks.size(); ++c) {
    const auto& place = of.made.chunks[c];
    if (place.rank != rank)
      continue;
    const auto& range = of.parts[place.part];
    const auto factor = wanted.state_factor + bounds.most_versions[rank] - 1;
    states += factor * sum(wanted.layers, range, &layer_costs::parameter_bytes);
    largest = std::max(largest, activation_bytes(of, wanted, c));
    if (of.recomputes[rank])
      working =
        std::max(working, of.merged * sum(wanted.layers, range, &layer_costs::activation_bytes));
  }
  return states + bounds.most_activations[rank] * largest + working;
}

void weigh(proposal& of, const search_request& wanted, const verdict& bounds) {
  of.peak_bytes.resize(of.made.ranks);
  of.memory_times = 0;
  for (std::int32_t r = 0; r < of.made.ranks; ++r) {
    of.peak_bytes[r] = bytes_needed(of, wanted, bounds, r);
    of.memory_times = std::max(of.memory_times, of.peak_bytes[r] / wanted.devices[r].memory_bytes);
  }
}

void time(proposal& of, const search_request& wanted) {
  auto under = conditions_of(of, wanted);
  under.keep_tasks = false;
  of.step = simulate(of.made, under).span;
}

/// The busiest rank's work: no order of its tasks makes a step shorter.
double least_step(const proposal& of, const search_request& wanted) {
  const auto under = conditions_of(of, wanted);
  double worst = 0;
  for (const auto& mine : of.made.by_rank) {
    double work = 0;
    for (const auto& entry : mine.forwards) {
      const auto& t = under.by_chunk[entry.chunk];
      work += t.forward + t.backward + t.weight;
    }
    worst = std::max(worst, work);
  }
  return worst;
}

class searcher {
public:
  explicit searcher(const search_request& wanted) : wanted_{wanted} {}

  search_result run() {
    for (const auto& each : all_schedules())
      if (is_wanted(each))
        try_schedule(each);
    auto& fitting = found_.fitting;
    std::stable_sort(fitting.begin(), fitting.end(), faster);
    for (std::size_t i = 0; i < std::min<std::size_t>(fitting.size(), 3); ++i)
      refine(fitting[i]);
    std::stable_sort(fitting.begin(), fitting.end(), faster);
    keep_what_memory_buys();
    return std::move(found_);
  }

private:
  static bool faster(const proposal& a, const proposal& b) { return a.step < b.step; }

  bool is_wanted(const schedule& each) const {
    if (wanted_.schedules.empty())
      return !each.name.starts_with("pipedream"); // those train something else
    return std::find(wanted_.schedules.begin(), wanted_.schedules.end(), each.name)
        != wanted_.schedules.end();
  }

  void try_schedule(const schedule& each) {
    const auto devices = static_cast<std::int32_t>(wanted_.devices.size());
    const auto layers = static_cast<std::int32_t>(wanted_.layers.size());
    proposal best;
    best.step = std::numeric_limits<double>::infinity();
    for (std::int32_t p = 1; p <= devices; ++p) {
      if ((wanted_.stages > 0 && p != wanted_.stages) || (each.name == "dualpipe" && p % 2 != 0))
        continue;
      const auto first = each.chunks_free ? 2 : each.chunks;
      const auto last = each.chunks_free ? std::max(2, wanted_.most_chunks) : each.chunks;
      for (auto v = first; v <= last && p * (each.name == "dualpipe" ? 1 : v) <= layers; ++v)
        for (std::int32_t merged = 1; merged <= (wanted_.may_merge ? wanted_.batch : 1); ++merged)
          if (wanted_.batch % merged == 0)
            try_one(each, {.stages = p, .micro_batches = wanted_.batch / merged, .chunks = v},
                    merged, best);
    }
    if (std::isfinite(best.step))
      found_.fitting.push_back(std::move(best));
  }

  void try_one(const schedule& each, const plan_request& numbers, std::int32_t merged,
               proposal& best) {
    proposal whole{.made = make_plan(each.name, numbers)};
    whole.merged = merged;
    whole.parts = cut(whole.made, wanted_);
    whole.recomputes.assign(whole.made.ranks, false);
    if (least_step(whole, wanted_) >= std::min(best.step, best_of_all_ * 1.5))
      return;
    ++found_.tried;
    const auto bounds = check(whole.made);
    weigh(whole, wanted_, bounds);
    if (whole.memory_times > 1 && !splits(whole.made)) {
      auto thrifty = whole;
      recompute_where_needed(thrifty, bounds);
      consider(std::move(thrifty), best);
    }
    consider(std::move(whole), best);
  }

  void recompute_where_needed(proposal& of, const verdict& bounds) {
    for (std::int32_t r = 0; r < of.made.ranks; ++r)
      of.recomputes[r] = of.peak_bytes[r] > wanted_.devices[r].memory_bytes;
    weigh(of, wanted_, bounds);
  }

  void consider(proposal of, proposal& best) {
    time(of, wanted_);
    if (of.memory_times > 1) {
      keep_if_unmatched(std::move(of));
    } else if (of.step < best.step - negligible) {
      best_of_all_ = std::min(best_of_all_, of.step);
      best = std::move(of);
    }
  }

  /// Keeps what does not fit unless something faster needs no more memory.
  void keep_if_unmatched(proposal of) {
    auto& more = found_.with_more;
    const auto matched = [](const proposal& by, const proposal& a) {
      return by.memory_times <= a.memory_times && by.step <= a.step;
    };
    if (of.step >= best_of_all_
        || std::any_of(more.begin(), more.end(), [&](const auto& by) { return matched(by, of); }))
      return;
    std::erase_if(more, [&](const auto& a) { return matched(of, a); });
    more.push_back(std::move(of));
  }

  /// Warm-up levels and cuts one step away, as long as that helps.
  void refine(proposal& of) {
    for (int round = 0; round < 4; ++round) {
      bool better = false;
      for (std::size_t i = 0; i < of.parts.size(); ++i) {
        if (i > 0)
          better |=
            take_if_better(of, moved_cut(of, i, -1)) || take_if_better(of, moved_cut(of, i, 1));
      }
      for (std::int32_t r = 0; r < of.made.ranks; ++r)
        if (of.made.by_rank[r].order.empty())
          better |= take_if_better(of, moved_warm_up(of, r, -1))
                 || take_if_better(of, moved_warm_up(of, r, 1));
      if (!better)
        return;
    }
  }

  static proposal moved_cut(proposal of, std::size_t part, int by) {
    of.parts[part - 1].end += by;
    of.parts[part].begin += by;
    return of;
  }

  static proposal moved_warm_up(proposal of, std::int32_t rank, int by) {
    auto& mine = of.made.by_rank[rank];
    mine.warm_up += by;
    return of;
  }

  bool take_if_better(proposal& kept, proposal other) {
    for (const auto& range : other.parts)
      if (range.begin >= range.end)
        return false;
    const auto bounds = check(other.made);
    if (!bounds.live)
      return false;
    ++found_.tried;
    weigh(other, wanted_, bounds);
    if (other.memory_times > 1)
      return false;
    time(other, wanted_);
    if (other.step >= kept.step * (1 - 1e-6))
      return false;
    kept = std::move(other);
    return true;
  }

  /// Of what does not fit, the steps of a staircase: each faster than all that need less.
  void keep_what_memory_buys() {
    auto& more = found_.with_more;
    std::stable_sort(more.begin(), more.end(), [](const proposal& a, const proposal& b) {
      return a.memory_times != b.memory_times ? a.memory_times < b.memory_times : a.step < b.step;
    });
    auto fastest = found_.fitting.empty() ? std::numeric_limits<double>::infinity()
                                          : found_.fitting.front().step;
    std::vector<proposal> kept;
    for (auto& each : more)
      if (each.step < fastest * 0.99) {
        fastest = each.step;
        kept.push_back(std::move(each));
      }
    more = std::move(kept);
  }

  const search_request& wanted_;
  search_result found_;
  double best_of_all_ = std::numeric_limits<double>::infinity();
};

} // namespace

std::string proposal::text() const {
  auto text = fmt::format("{} on {} rank{}, {} micro-batch{}", made.schedule, made.ranks,
                          made.ranks == 1 ? "" : "s", made.micro_batches,
                          made.micro_batches == 1 ? "" : "es");
  const auto chunks = static_cast<std::int32_t>(made.chunks.size()) / std::max(made.ranks, 1);
  if (chunks > 1)
    text += fmt::format(", {} chunks a rank", chunks);
  if (merged > 1)
    text += fmt::format(" {} times the measured size", merged);
  const auto again = std::count(recomputes.begin(), recomputes.end(), true);
  if (again > 0)
    text += fmt::format(", {} recomputing", again);
  return text;
}

conditions conditions_of(const proposal& of, const search_request& wanted) {
  conditions under{.between = wanted.between};
  for (const auto& place : of.made.chunks) {
    const auto& range = of.parts[place.part];
    const auto scale = of.merged / wanted.devices[place.rank].speed;
    const auto forward = sum(wanted.layers, range, &layer_costs::forward);
    const auto again = of.recomputes[place.rank] ? forward : 0;
    under.by_chunk.push_back(
      {.forward = scale * forward,
       .backward = scale * (again + sum(wanted.layers, range, &layer_costs::backward)),
       .weight = scale * sum(wanted.layers, range, &layer_costs::weight)});
  }
  for (const auto& range : of.parts)
    under.output_bytes.push_back(of.merged * wanted.layers[range.end - 1].output_bytes);
  return under;
}

proposal propose(plan made, const search_request& wanted, std::int32_t merged) {
  if (static_cast<std::int32_t>(wanted.devices.size()) < made.ranks)
    throw plan_error(fmt::format("{} ranks need {} devices, not {}", made.ranks, made.ranks,
                                 wanted.devices.size()));
  proposal of{.made = std::move(made)};
  of.merged = merged;
  of.parts = cut(of.made, wanted);
  of.recomputes.assign(of.made.ranks, false);
  const auto bounds = check(of.made);
  if (!bounds.live)
    throw plan_error(bounds.text);
  weigh(of, wanted, bounds);
  time(of, wanted);
  return of;
}

search_result search(const search_request& wanted) {
  if (wanted.layers.empty())
    throw plan_error("a search needs layers: measure them with `sluice profile`");
  if (wanted.devices.empty())
    throw plan_error("a search needs devices");
  return searcher{wanted}.run();
}

} // namespace sluice::plan
