#include "actors/plan/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <queue>

#include "actors/plan/ledger.hpp"

namespace sluice::plan {

namespace {

using ticks = std::int64_t;

/// Divisible by every number up to 16: a stage cut into chunks keeps whole ticks.
constexpr double ticks_of_longest = 64.0 * 720720;

/// A number in (0, 1) for each key (splitmix64), the same on every machine.
double uniform(std::uint64_t key) {
  key += 0x9e3779b97f4a7c15;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
  key ^= key >> 31;
  return (static_cast<double>(key >> 11) + 0.5) / 9007199254740992.0; // 2^53
}

std::uint64_t mix(std::uint64_t seed, std::uint64_t value) {
  seed ^= value + 0x9e3779b97f4a7c15 + (seed << 6) + (seed >> 2);
  return seed * 0xff51afd7ed558ccd + (seed >> 33);
}

double factor(const jitter& noise, const task& which) {
  if (noise.sigma == 0 && noise.slow_share == 0)
    return 1;
  auto key = mix(noise.seed, static_cast<std::uint64_t>(which.kind));
  key = mix(key, static_cast<std::uint64_t>(which.chunk));
  key = mix(key, static_cast<std::uint64_t>(which.micro_batch));
  const double normal =
    std::sqrt(-2 * std::log(uniform(key))) * std::cos(2 * std::numbers::pi * uniform(mix(key, 1)));
  const double spread = std::exp(noise.sigma * normal - noise.sigma * noise.sigma / 2);
  return uniform(mix(key, 2)) < noise.slow_share ? spread * noise.slow_factor : spread;
}

struct event {
  enum class type : std::uint8_t { task_ended, input_arrived, slot_came_back, looks_again };
  ticks at;
  type what;
  std::int32_t rank;
  task about;          // the task that ended, or the one that the input is for
  std::int32_t to = 0; // slot_came_back: the chunk that has emptied it

  bool operator>(const event& other) const { return at > other.at; }
};

class simulator {
public:
  simulator(const plan& of, const conditions& under)
    : of_{of},
      under_{under},
      feeds_{of},
      devices_(of.ranks) {
    set_times();
    set_links();
    ledgers_.reserve(of.ranks);
    for (std::int32_t r = 0; r < of.ranks; ++r)
      ledgers_.emplace_back(of, feeds_, r);
  }

  simulation run() {
    for (std::int32_t r = 0; r < of_.ranks; ++r)
      touch(r);
    choose();
    while (!events_.empty()) {
      now_ = events_.top().at;
      while (!events_.empty() && events_.top().at == now_) {
        const auto next = events_.top();
        events_.pop();
        handle(next);
      }
      choose();
    }
    return result();
  }

private:
  struct device {
    ticks free_at = 0; // of all that has been issued
    ticks host_free_at = 0;
    ticks last_task = 0;     // how long it took
    ticks waits_until = -1;  // for the input that it wants
    std::int32_t issued = 0; // and not ended
    ticks first_start = -1;
    ticks last_end = 0;
    ticks work = 0;
    bool touched = false;
  };

  struct wire {
    std::int32_t to;
    ticks latency;
    double bandwidth;
    bool overlaps;
    ticks free_at;
  };

  void set_times() {
    const auto share = of_.share();
    times_ = under_.by_chunk;
    if (times_.empty())
      times_.assign(of_.chunks.size(), {under_.stage.forward * share, under_.stage.backward * share,
                                        under_.stage.weight * share, under_.stage.update * share});
    double longest = 0;
    for (const auto& t : times_)
      longest = std::max({longest, t.forward, t.backward, t.weight, t.update});
    tick_ = longest > 0 ? longest / ticks_of_longest : 1 / ticks_of_longest;
  }

  void set_links() {
    wires_.resize(of_.ranks);
    for (const auto& odd : under_.odd_links)
      wire_between(odd.from_rank, odd.to_rank) = make_wire(odd.to_rank, odd.costs);
  }

  wire make_wire(std::int32_t to, const link& costs) const {
    return {to, to_ticks(costs.latency), costs.bandwidth, costs.overlaps_tasks, 0};
  }

  wire& wire_between(std::int32_t from, std::int32_t to) {
    for (auto& each : wires_[from])
      if (each.to == to)
        return each;
    return wires_[from].emplace_back(make_wire(to, under_.between));
  }

  ticks to_ticks(double time) const { return std::llround(time / tick_); }

  ticks duration(std::int32_t rank, const task& which, bool split) const {
    return to_ticks(task_duration(of_, under_, rank, which, split));
  }

  void touch(std::int32_t rank) {
    if (!devices_[rank].touched) {
      devices_[rank].touched = true;
      touched_.push_back(rank);
    }
  }

  /// All ranks that something has changed for choose, until nobody can go on.
  void choose() {
    while (!touched_.empty()) {
      choosing_.swap(touched_);
      for (const auto rank : choosing_)
        devices_[rank].touched = false;
      std::sort(choosing_.begin(), choosing_.end());
      for (const auto rank : choosing_)
        issue(rank);
      choosing_.clear();
    }
  }

  void issue(std::int32_t rank) {
    auto& here = devices_[rank];
    while (here.issued <= look_ahead(rank)) {
      if (here.host_free_at > now_) // it looks again when it has issued the last one
        return;
      const auto& progress = ledgers_[rank].progress();
      const bool split =
        progress.backwards_started < static_cast<std::int32_t>(of_.by_rank[rank].backwards.size())
        && of_.by_rank[rank].backwards[progress.backwards_started].split;
      const auto next = ledgers_[rank].next();
      if (!next || waits_patiently(rank))
        return;
      start(rank, *next, duration(rank, *next, split));
    }
  }

  /// Whether the rank still hopes for the input that it wants, in place of a stand-in: at least
  /// for as long as its device is busy.
  bool waits_patiently(std::int32_t rank) {
    auto& here = devices_[rank];
    const auto until =
      here.free_at
      + std::llround(patient_for(under_.patience / tick_, static_cast<double>(here.last_task)));
    if (now_ >= until || !ledgers_[rank].next_stands_in())
      return false;
    if (here.waits_until != until)
      events_.push({until, event::type::looks_again, rank, {}});
    here.waits_until = until;
    return true;
  }

  void start(std::int32_t rank, const task& which, ticks takes) {
    auto& here = devices_[rank];
    ledgers_[rank].start(which);
    give_slots_back(rank, which);
    const auto host = to_ticks(under_.dispatch_time);
    here.host_free_at = now_ + host;
    const auto begin = std::max(here.free_at, here.host_free_at);
    const auto end = begin + takes;
    here.free_at = end;
    here.work += takes;
    here.last_task = takes;
    here.first_start = here.first_start < 0 ? begin : here.first_start;
    here.last_end = end;
    ++here.issued;
    if (under_.keep_tasks)
      tasks_.push_back(
        {rank, which, static_cast<double>(begin) * tick_, static_cast<double>(end) * tick_});
    finish_here(rank, which); // for what follows it in the device's queue
    if (look_ahead(rank) > 0 && host > 0)
      events_.push({here.host_free_at, event::type::looks_again, rank, which});
    if (!send_is_free(rank, which)) {
      for (const auto to : feeds_.receivers(which.kind, which.chunk))
        if (const auto there = of_.chunks[to].rank; there != rank)
          here.free_at += occupied(wire_between(rank, there), message_bytes(which.chunk, to));
    }
    events_.push({end, event::type::task_ended, rank, which});
  }

  bool send_is_free(std::int32_t rank, const task& which) {
    for (const auto to : feeds_.receivers(which.kind, which.chunk))
      if (const auto there = of_.chunks[to].rank; there != rank)
        if (!wire_between(rank, there).overlaps)
          return false;
    return true;
  }

  ticks occupied(const wire& by, double bytes) const {
    return by.bandwidth > 0 ? to_ticks(bytes / by.bandwidth) : 0;
  }

  /// An output has its size both ways: as an activation and as its gradient.
  double message_bytes(std::int32_t from, std::int32_t to) const {
    const auto part = std::min(of_.chunks[from].part, of_.chunks[to].part);
    return under_.output_bytes.empty() ? under_.message_bytes : under_.output_bytes[part];
  }

  void give_slots_back(std::int32_t rank, const task& which) {
    if (of_.receive_slots == 0)
      return;
    const auto senders = which.kind == task_kind::forward  ? feeds_.sources(which.chunk)
                       : which.kind == task_kind::backward ? feeds_.targets(which.chunk)
                                                           : std::span<const std::int32_t>{};
    for (const auto from : senders)
      if (const auto there = of_.chunks[from].rank; there != rank)
        events_.push({now_ + wire_between(rank, there).latency,
                      event::type::slot_came_back,
                      there,
                      {which.kind, from, which.micro_batch},
                      which.chunk});
  }

  std::int32_t look_ahead(std::int32_t rank) const {
    return of_.by_rank[rank].look_ahead.value_or(under_.look_ahead);
  }

  /// What a task changes on its own rank.
  void finish_here(std::int32_t rank, const task& which) {
    ledgers_[rank].finish(which);
    for (const auto to : feeds_.receivers(which.kind, which.chunk))
      if (of_.chunks[to].rank == rank)
        ledgers_[rank].arrived(which.kind, to, which.micro_batch);
  }

  void handle(const event& next) {
    switch (next.what) {
    case event::type::task_ended:
      end(next.rank, next.about);
      break;
    case event::type::input_arrived:
      ledgers_[next.rank].arrived(next.about.kind, next.about.chunk, next.about.micro_batch);
      break;
    case event::type::slot_came_back:
      ledgers_[next.rank].slot_returned(next.about.kind, next.about.chunk, next.to);
      break;
    case event::type::looks_again:
      break;
    }
    touch(next.rank);
  }

  void end(std::int32_t rank, const task& which) {
    --devices_[rank].issued;
    for (const auto to : feeds_.receivers(which.kind, which.chunk)) {
      const auto there = of_.chunks[to].rank;
      if (there == rank)
        continue;
      auto& by = wire_between(rank, there);
      by.free_at = std::max(by.free_at, now_) + occupied(by, message_bytes(which.chunk, to));
      events_.push({by.free_at + by.latency,
                    event::type::input_arrived,
                    there,
                    {which.kind, to, which.micro_batch}});
    }
  }

  simulation result() {
    simulation found;
    found.finished = true;
    ticks first = -1;
    ticks last = 0;
    ticks work = 0;
    for (std::int32_t r = 0; r < of_.ranks; ++r) {
      const auto& d = devices_[r];
      found.finished = found.finished && ledgers_[r].all_started();
      found.by_rank.push_back(
        {.work = static_cast<double>(d.work) * tick_,
         .first_start = static_cast<double>(std::max(d.first_start, ticks{0})) * tick_,
         .last_end = static_cast<double>(d.last_end) * tick_,
         .peak_activations = ledgers_[r].peak_activations()});
      if (d.first_start >= 0 && (first < 0 || d.first_start < first))
        first = d.first_start;
      last = std::max(last, d.last_end);
      work += d.work;
    }
    found.span = static_cast<double>(last - std::max(first, ticks{0})) * tick_;
    found.work = static_cast<double>(work) * tick_;
    std::stable_sort(tasks_.begin(), tasks_.end(), [](const timed_task& a, const timed_task& b) {
      return a.start != b.start ? a.start < b.start : a.rank < b.rank;
    });
    found.tasks = std::move(tasks_);
    return found;
  }

  const plan& of_;
  const conditions& under_;
  topology feeds_;
  std::vector<task_times> times_; // by chunk
  double tick_ = 1;
  ticks now_ = 0;
  std::vector<device> devices_;
  std::vector<ledger> ledgers_;
  std::vector<std::vector<wire>> wires_; // by sender: a rank has few peers
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::vector<std::int32_t> touched_;
  std::vector<std::int32_t> choosing_;
  std::vector<timed_task> tasks_;
};

} // namespace

double simulation::bubble() const {
  return span > 0 ? 1 - work / (static_cast<double>(by_rank.size()) * span) : 0;
}

double simulation::cost() const {
  double worst = 0;
  for (const auto& each : by_rank)
    worst = std::max(worst, each.idle());
  return worst;
}

double task_duration(const plan& of, const conditions& under, std::int32_t rank, const task& which,
                     bool split) {
  const auto chunk = static_cast<std::size_t>(which.chunk);
  const auto& t = under.by_chunk.empty() ? under.stage : under.by_chunk[chunk];
  const double share = under.by_chunk.empty() ? of.share() : 1;
  const double slow = under.slowness.empty() ? 1 : under.slowness[static_cast<std::size_t>(rank)];
  const double times[] = {t.forward, split ? t.backward : t.backward + t.weight, t.weight,
                          t.update};
  return times[static_cast<std::size_t>(which.kind)] * share * slow * factor(under.noise, which);
}

simulation simulate(const plan& of, const conditions& under) {
  return simulator{of, under}.run();
}

plan freeze(plan of, const simulation& ran) {
  for (auto& mine : of.by_rank)
    mine.order.clear();
  for (const auto& each : ran.tasks)
    of.by_rank[each.rank].order.push_back(each.what.kind);
  return of;
}

} // namespace sluice::plan
