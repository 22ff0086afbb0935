#include "actors/plan/check.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace sluice::plan {

namespace {

/// Collects errors, the first few of a kind only: a broken table may have thousands.
class inspector {
public:
  explicit inspector(const plan& of) : of_{of} {}

  std::vector<std::string> errors() {
    places();
    if (errors_.empty())
      routes();
    if (errors_.empty())
      for (std::int32_t r = 0; r < of_.ranks; ++r)
        lanes(r);
    if (errors_.empty())
      all_there();
    return std::move(errors_);
  }

private:
  static constexpr std::size_t enough = 10;

  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> what, Args&&... args) {
    if (!holds && errors_.size() < enough)
      errors_.push_back(fmt::format(what, std::forward<Args>(args)...));
  }

  std::int32_t chunks() const { return static_cast<std::int32_t>(of_.chunks.size()); }

  void places() {
    require(of_.ranks >= 1, "{} ranks", of_.ranks);
    require(of_.micro_batches >= 1, "{} micro-batches", of_.micro_batches);
    require(of_.parts >= 1, "{} parts", of_.parts);
    require(of_.receive_slots >= 0, "{} receive slots", of_.receive_slots);
    require(static_cast<std::int32_t>(of_.by_rank.size()) == of_.ranks,
            "{} ranks, but lanes for {}", of_.ranks, of_.by_rank.size());
    std::vector<std::int32_t> on_rank(std::max(of_.ranks, 0));
    for (std::int32_t c = 0; c < chunks(); ++c) {
      const auto& place = of_.chunks[c];
      const bool on_one = place.rank >= 0 && place.rank < of_.ranks;
      require(on_one, "chunk {} is on rank {}, of {}", c, place.rank, of_.ranks);
      require(place.part >= 0 && place.part < of_.parts, "chunk {} is part {}, of {}", c,
              place.part, of_.parts);
      if (on_one)
        require(place.local == on_rank[place.rank]++,
                "chunk {} is number {} on rank {}, but numbers there must follow one another", c,
                place.local, place.rank);
    }
    for (const auto& skip : of_.skips)
      require(0 <= skip.from_part && skip.from_part + 1 < skip.to_part && skip.to_part < of_.parts,
              "a skip from part {} to part {}, of {}", skip.from_part, skip.to_part, of_.parts);
  }

  void routes() {
    std::vector<std::int32_t> route_of_chunk(of_.chunks.size(), -1);
    for (std::size_t r = 0; r < of_.routes.size(); ++r) {
      const auto& route = of_.routes[r];
      require(static_cast<std::int32_t>(route.size()) == of_.parts,
              "route {} has {} chunks for {} parts", r, route.size(), of_.parts);
      for (std::size_t i = 0; i < route.size(); ++i) {
        const bool is_one = route[i] >= 0 && route[i] < chunks();
        require(is_one, "route {} passes chunk {}, of {}", r, route[i], chunks());
        if (!is_one)
          continue;
        const auto part = of_.chunks[route[i]].part;
        require(part == static_cast<std::int32_t>(i), "route {} passes part {} as number {}", r,
                part, i);
        require(route_of_chunk[route[i]] == -1, "chunk {} is passed twice", route[i]);
        route_of_chunk[route[i]] = static_cast<std::int32_t>(r);
      }
    }
    for (std::int32_t c = 0; c < chunks(); ++c)
      require(route_of_chunk[c] >= 0, "no route passes chunk {}", c);
    require(static_cast<std::int32_t>(of_.route_of.size()) == of_.micro_batches,
            "{} micro-batches, but routes for {}", of_.micro_batches, of_.route_of.size());
    for (std::size_t m = 0; m < of_.route_of.size(); ++m)
      require(of_.route_of[m] >= 0
                && of_.route_of[m] < static_cast<std::int32_t>(of_.routes.size()),
              "micro-batch {} takes route {}, of {}", m, of_.route_of[m], of_.routes.size());
    if (errors_.empty())
      route_of_chunk_ = std::move(route_of_chunk);
    seen_.assign(static_cast<std::size_t>(chunks()) * std::max(of_.micro_batches, 0), 0);
  }

  void lanes(std::int32_t rank) {
    using enum task_kind;
    const auto& mine = of_.by_rank[rank];
    require(mine.credits >= 1, "rank {} has {} credits", rank, mine.credits);
    for (const auto kind : {forward, backward, weight, update})
      for (const auto& entry : mine.lane(kind))
        lane_task(rank, kind, entry);
    std::vector<std::int32_t> updates(of_.chunks.size());
    for (const auto& entry : mine.updates)
      if (entry.chunk >= 0 && entry.chunk < chunks())
        ++updates[entry.chunk];
    for (const auto& entry : mine.forwards)
      if (entry.chunk >= 0 && entry.chunk < chunks())
        require(entry.version >= 0 && entry.version <= updates[entry.chunk],
                "rank {}: F{} wants version {} of weights that are updated {} times", rank,
                entry.micro_batch, entry.version, updates[entry.chunk]);
    if (mine.order.empty())
      return;
    for (const auto kind : {forward, backward, weight, update})
      require(std::count(mine.order.begin(), mine.order.end(), kind)
                == static_cast<std::ptrdiff_t>(mine.lane(kind).size()),
              "rank {}: its order and its lanes have unequal numbers of {}", rank, letter(kind));
  }

  void lane_task(std::int32_t rank, task_kind kind, const lane_entry& entry) {
    const bool there = entry.chunk >= 0 && entry.chunk < chunks()
                    && of_.chunks[entry.chunk].rank == rank && entry.micro_batch >= 0
                    && entry.micro_batch < of_.micro_batches
                    && of_.route_of[entry.micro_batch] == route_of_chunk_[entry.chunk];
    require(there, "rank {} cannot run {}{} of chunk {}", rank, letter(kind), entry.micro_batch,
            entry.chunk);
    if (!there)
      return;
    auto& seen =
      seen_[static_cast<std::size_t>(entry.chunk) * of_.micro_batches + entry.micro_batch];
    const auto bit = static_cast<std::uint8_t>(1u << static_cast<unsigned>(kind));
    require(!(seen & bit), "{} is there twice",
            to_string(of_, {kind, entry.chunk, entry.micro_batch}));
    seen |= bit;
    if (kind == task_kind::backward && entry.split)
      seen |= split_bit;
  }

  void all_there() {
    using enum task_kind;
    for (std::int32_t c = 0; c < chunks(); ++c)
      for (std::int32_t m = 0; m < of_.micro_batches; ++m) {
        if (of_.route_of[m] != route_of_chunk_[c])
          continue;
        const auto seen = seen_[static_cast<std::size_t>(c) * of_.micro_batches + m];
        require(seen & 1, "{} is missing", to_string(of_, {forward, c, m}));
        require(static_cast<bool>(seen & 2) != of_.forward_only, "{} is {}",
                to_string(of_, {backward, c, m}),
                of_.forward_only ? "in a plan of forwards only" : "missing");
        require(static_cast<bool>(seen & 4) == static_cast<bool>(seen & split_bit),
                "{}: a split backward and its weight gradient come together",
                to_string(of_, {weight, c, m}));
      }
  }

  static constexpr std::uint8_t split_bit = 16;

  const plan& of_;
  std::vector<std::string> errors_;
  std::vector<std::int32_t> route_of_chunk_;
  std::vector<std::uint8_t> seen_; // a bit for each kind, by chunk and micro-batch
};

} // namespace

std::vector<std::string> shape_errors(const plan& of) {
  return inspector{of}.errors();
}

} // namespace sluice::plan
