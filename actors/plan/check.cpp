#include "actors/plan/check.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

namespace sluice::plan {

namespace {

using enum task_kind;
constexpr std::array kinds{forward, backward, weight, update};

/// The plan's marked graph, sorted by running it without clocks: since no edge is a choice, running
/// whatever can run takes the same tasks in the end as any execution does.
class sorter {
public:
  explicit sorter(const plan& of)
    : of_{of},
      feeds_{of},
      ran_(of.chunks.size() * of.micro_batches),
      ranks_(of.ranks),
      updates_(of.chunks.size()),
      owed_(of.chunks.size()),
      sent_(of.chunks.size() * 2),
      queued_(of.ranks, true) {}

  void run() {
    for (std::int32_t r = 0; r < of_.ranks; ++r)
      queue_.push_back(r);
    while (!queue_.empty()) {
      const auto rank = queue_.back();
      queue_.pop_back();
      queued_[rank] = false;
      while (run_one(rank)) {
      }
    }
  }

  /// If tasks are left: from one of them along the edges until a task comes round again.
  std::vector<wait> cycle() const {
    std::vector<wait> path;
    std::vector<std::int32_t> seen_at(of_.ranks * kinds.size(), -1);
    auto at = first_left();
    while (at) {
      auto& seen = seen_at[at->rank * kinds.size() + static_cast<std::size_t>(at->kind)];
      if (seen >= 0) {
        path.erase(path.begin(), path.begin() + seen);
        return path;
      }
      seen = static_cast<std::int32_t>(path.size());
      const auto blocked = *obstacle(at->rank, at->kind);
      path.push_back(blocked);
      const lane_head next{of_.chunks[blocked.on.chunk].rank, blocked.on.kind};
      const auto ahead = head(next.rank, next.kind);
      if (ahead != blocked.on)
        path.push_back({blocked.on, ahead, reason::lane});
      at = next;
    }
    return path;
  }

private:
  struct lane_head {
    std::int32_t rank;
    task_kind kind;
  };

  struct counts {
    std::array<std::int32_t, 4> done{}; // by kind
    std::int32_t held = 0;

    std::int32_t of(task_kind kind) const { return done[static_cast<std::size_t>(kind)]; }
    std::size_t all() const {
      return static_cast<std::size_t>(done[0]) + done[1] + done[2] + done[3];
    }
  };

  const std::vector<lane_entry>& lane(std::int32_t rank, task_kind kind) const {
    return of_.by_rank[rank].lane(kind);
  }

  bool is_left(std::int32_t rank, task_kind kind) const {
    return ranks_[rank].of(kind) < static_cast<std::int32_t>(lane(rank, kind).size());
  }

  std::optional<lane_head> first_left() const {
    for (std::int32_t r = 0; r < of_.ranks; ++r)
      for (const auto kind : kinds)
        if (is_left(r, kind))
          return lane_head{r, kind};
    return std::nullopt;
  }

  task head(std::int32_t rank, task_kind kind) const {
    const auto& entry = lane(rank, kind)[ranks_[rank].of(kind)];
    return {kind, entry.chunk, entry.micro_batch};
  }

  std::uint8_t& ran(std::int32_t chunk, std::int32_t micro_batch) {
    return ran_[static_cast<std::size_t>(chunk) * of_.micro_batches + micro_batch];
  }
  bool has_run(task_kind kind, std::int32_t chunk, std::int32_t micro_batch) const {
    return ran_[static_cast<std::size_t>(chunk) * of_.micro_batches + micro_batch]
         & (1u << static_cast<unsigned>(kind));
  }

  bool run_one(std::int32_t rank) {
    for (const auto kind : kinds)
      if (is_left(rank, kind) && !obstacle(rank, kind)) {
        run_head(rank, kind);
        return true;
      }
    return false;
  }

  void run_head(std::int32_t rank, task_kind kind) {
    auto& mine = ranks_[rank];
    const auto entry = lane(rank, kind)[mine.of(kind)];
    ++mine.done[static_cast<std::size_t>(kind)];
    auto& bits = ran(entry.chunk, entry.micro_batch);
    bits |= static_cast<std::uint8_t>(1u << static_cast<unsigned>(kind));
    if (kind == backward && !entry.split) // the weight gradient is in it
      bits |= static_cast<std::uint8_t>(1u << static_cast<unsigned>(weight));
    if (kind == forward && !of_.forward_only)
      ++mine.held;
    if (kind == weight || (kind == backward && !entry.split))
      --mine.held;
    if (kind == backward && entry.split)
      ++owed_[entry.chunk];
    if (kind == weight)
      --owed_[entry.chunk];
    if (kind == update)
      ++updates_[entry.chunk];
    if (kind == forward || kind == backward)
      ++sent_[entry.chunk * 2 + (kind == backward)];
    // Those who wait for its output, and those whose receive slot it has emptied.
    for (const auto to : feeds_.sources(entry.chunk))
      enqueue(of_.chunks[to].rank);
    for (const auto to : feeds_.targets(entry.chunk))
      enqueue(of_.chunks[to].rank);
  }

  void enqueue(std::int32_t rank) {
    if (!queued_[rank]) {
      queued_[rank] = true;
      queue_.push_back(rank);
    }
  }

  std::optional<wait> obstacle(std::int32_t rank, task_kind kind) const {
    const auto which = head(rank, kind);
    if (auto on = earlier_in_order(rank, kind))
      return wait{which, *on, reason::order};
    switch (kind) {
    case forward:
      return forward_obstacle(rank, which);
    case backward:
      return backward_obstacle(rank, which);
    case weight:
      if (!has_run(backward, which.chunk, which.micro_batch))
        return wait{which, {backward, which.chunk, which.micro_batch}, reason::input};
      return std::nullopt;
    case update:
      break;
    }
    if (!has_run(weight, which.chunk, which.micro_batch)) {
      const bool split = has_run(backward, which.chunk, which.micro_batch);
      return wait{
        which, {split ? weight : backward, which.chunk, which.micro_batch}, reason::weights};
    }
    return std::nullopt;
  }

  std::optional<wait> forward_obstacle(std::int32_t rank, const task& which) const {
    const auto& mine = ranks_[rank];
    for (const auto from : feeds_.sources(which.chunk))
      if (!has_run(forward, from, which.micro_batch))
        return wait{which, {forward, from, which.micro_batch}, reason::input};
    const auto version = lane(rank, forward)[mine.of(forward)].version;
    if (updates_[which.chunk] < version)
      return wait{which, next_of(rank, update, which.chunk), reason::weights};
    if (mine.held >= of_.by_rank[rank].credits)
      return wait{which, next_release(rank), reason::credit};
    return slot_obstacle(which);
  }

  std::optional<wait> backward_obstacle(std::int32_t rank, const task& which) const {
    const auto from = feeds_.targets(which.chunk);
    if (from.empty() && !has_run(forward, which.chunk, which.micro_batch))
      return wait{which, {forward, which.chunk, which.micro_batch}, reason::input};
    for (const auto chunk : from)
      if (!has_run(backward, chunk, which.micro_batch))
        return wait{which, {backward, chunk, which.micro_batch}, reason::input};
    if (!lane(rank, backward)[ranks_[rank].of(backward)].split && owed_[which.chunk] > 0)
      return wait{which, next_of(rank, weight, which.chunk), reason::sum};
    return slot_obstacle(which);
  }

  /// An output needs a slot at each receiver: the k-th on an edge comes after the (k - slots)-th
  /// has been taken.
  std::optional<wait> slot_obstacle(const task& which) const {
    if (of_.receive_slots == 0)
      return std::nullopt;
    const auto rank = of_.chunks[which.chunk].rank;
    for (const auto to : feeds_.receivers(which.kind, which.chunk)) {
      const auto there = of_.chunks[to].rank;
      const auto sent = sent_[which.chunk * 2 + (which.kind == backward)];
      const auto taken = sent_[to * 2 + (which.kind == backward)];
      if (there != rank && sent - taken >= of_.receive_slots)
        return wait{which, next_of(there, which.kind, to), reason::receive_slot};
    }
    return std::nullopt;
  }

  /// Ranks that may not choose, or not freely: without stand-in F_j comes after B_(j - warm-up) and
  /// B_j after F_(j + warm-up - 1); with it B_j comes after F_(j + warm-up - lead - 1).
  std::optional<task> earlier_in_order(std::int32_t rank, task_kind kind) const {
    const auto& rules = of_.by_rank[rank];
    const auto& mine = ranks_[rank];
    if (!rules.order.empty()) {
      const auto next = rules.order[mine.all()];
      return next == kind ? std::nullopt : std::optional{head(rank, next)};
    }
    if (kind == weight || kind == update)
      return std::nullopt;
    const auto under_way = mine.of(forward) - mine.of(backward);
    const bool wants_forward =
      is_left(rank, forward) && (!is_left(rank, backward) || under_way < rules.warm_up);
    const auto wanted = wants_forward ? forward : backward;
    const bool may_stand_in =
      rules.stand_in && (kind == forward || under_way >= rules.warm_up - rules.backward_lead);
    return wanted == kind || may_stand_in ? std::nullopt : std::optional{head(rank, wanted)};
  }

  task next_of(std::int32_t rank, task_kind kind, std::int32_t chunk) const {
    const auto& entries = lane(rank, kind);
    auto at = static_cast<std::size_t>(ranks_[rank].of(kind));
    while (at + 1 < entries.size() && entries[at].chunk != chunk)
      ++at;
    return {kind, entries[at].chunk, entries[at].micro_batch};
  }

  task next_release(std::int32_t rank) const {
    if (is_left(rank, backward) && !lane(rank, backward)[ranks_[rank].of(backward)].split)
      return head(rank, backward);
    return head(rank, weight);
  }

  const plan& of_;
  topology feeds_;
  std::vector<std::uint8_t> ran_; // a bit for each kind, by chunk and micro-batch
  std::vector<counts> ranks_;
  std::vector<std::int32_t> updates_; // done, by chunk
  std::vector<std::int32_t> owed_;    // split backwards whose W has not run, by chunk
  std::vector<std::int32_t> sent_;    // by chunk: F, then B
  std::vector<std::int32_t> queue_;
  std::vector<bool> queued_;
};

/// Why one task waits for another, in words that fit between the two.
const char* words(reason why) {
  switch (why) {
  case reason::input:
    return "waits for its input from";
  case reason::lane:
    return "comes in its lane after";
  case reason::credit:
    return "waits for the credit freed by";
  case reason::order:
    return "comes in the order of its rank after";
  case reason::weights:
    return "waits for the weights or gradients made by";
  case reason::sum:
    return "adds to the same gradient after";
  case reason::receive_slot:
    break;
  }
  return "waits for the receive slot emptied by";
}

std::string in_words(const plan& of, const std::vector<wait>& cycle) {
  std::string text =
    fmt::format("{}: the plan cannot finish; these tasks wait for each other:\n", of.schedule);
  for (const auto& each : cycle)
    text += fmt::format("  {} {} {}\n", to_string(of, each.waiting), words(each.why),
                        to_string(of, each.on));
  return text;
}

/// What a rank holds at most: its credits, or less where its order leaves no choice.
std::int32_t most_activations(const plan& of, const rank_plan& mine) {
  const auto forwards = static_cast<std::int32_t>(mine.forwards.size());
  const auto bound = std::min(mine.credits, forwards);
  if (of.forward_only)
    return std::min(bound, 1);
  if (mine.order.empty())
    return mine.stand_in || !mine.weights.empty() ? bound : std::min(bound, mine.warm_up);
  std::int32_t held = 0;
  std::int32_t most = 0;
  std::size_t backwards = 0;
  for (const auto kind : mine.order) {
    if (kind == forward)
      most = std::max(most, ++held);
    else if (kind == weight || (kind == backward && !mine.backwards[backwards].split))
      --held;
    backwards += kind == backward;
  }
  return most;
}

/// What a rank keeps at most of one chunk's weights: from the version that the next backward uses
/// to the newest, after each update.
std::int32_t most_versions(const rank_plan& mine) {
  std::int32_t most = 1;
  auto made = mine.updates.begin();
  for (auto b = mine.backwards.begin(); b != mine.backwards.end() && made != mine.updates.end();
       ++b)
    if (b->chunk == made->chunk && b->micro_batch == made->micro_batch) {
      const auto next = std::find_if(b + 1, mine.backwards.end(), [&](const lane_entry& later) {
        return later.chunk == made->chunk;
      });
      if (next != mine.backwards.end())
        most = std::max(most, made->version - next->version + 1);
      ++made;
    }
  return most;
}

} // namespace

verdict check(const plan& of) {
  verdict found;
  found.shape_errors = shape_errors(of);
  for (const auto& error : found.shape_errors)
    found.text += fmt::format("{}: {}\n", of.schedule, error);
  if (!found.shape_errors.empty())
    return found;

  sorter sorted{of};
  sorted.run();
  found.cycle = sorted.cycle();
  found.live = found.cycle.empty();
  if (!found.live)
    found.text = in_words(of, found.cycle);
  for (const auto& mine : of.by_rank) {
    found.most_activations.push_back(most_activations(of, mine));
    found.most_versions.push_back(most_versions(mine));
  }
  return found;
}

} // namespace sluice::plan
