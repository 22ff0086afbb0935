#include "actors/stress/seeded_bug.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/stress/draw.hpp"

namespace sluice::stress {

namespace {

constexpr std::array bugs{
  named_bug{seeded_bug::lost_message, "lost-message", "a payload never arrives"},
  named_bug{seeded_bug::credit_too_few, "credit-too-few",
            "a rank has a credit less than was checked"},
  named_bug{seeded_bug::credit_too_many, "credit-too-many",
            "a rank has a credit more than was checked"},
  named_bug{seeded_bug::swapped_payload, "swapped-payload",
            "two payloads arrive under each other's names"},
  named_bug{seeded_bug::early_reuse, "early-reuse",
            "a buffer is overwritten before its transfer has read it"},
  named_bug{seeded_bug::unordered_lane, "unordered-lane",
            "a lane's entries change places after the check"},
};

constexpr std::uint64_t trials_between = 8;      ///< that have a broken plan
constexpr std::uint64_t transfers_between = 300; ///< that are treated wrongly

bool between_stages(const net::transfer& what) {
  return what.payload == net::payload::activation || what.payload == net::payload::gradient;
}

bool strikes(const net::transfer& what, std::uint64_t seed) {
  const auto drawn =
    draw(seed, what.epoch, static_cast<std::uint64_t>(what.payload),
         static_cast<std::uint64_t>(what.chunk), static_cast<std::uint64_t>(what.micro_batch));
  return between_stages(what) && drawn % transfers_between == 0;
}

bool same_edge(const net::transfer& one, const net::transfer& other) {
  return one.epoch == other.epoch && one.payload == other.payload && one.from == other.from
      && one.chunk == other.chunk;
}

bool same_shapes(const kernels::tensor_list& one, const kernels::tensor_list& other) {
  return std::ranges::equal(one, other, [](const auto& left, const auto& right) {
    return left.type() == right.type() && left.shape() == right.shape();
  });
}

/// Passes everything on to another endpoint, apart from the bug.
class broken_endpoint final : public net::endpoint {
public:
  broken_endpoint(net::endpoint& inner, seeded_bug bug, std::uint64_t seed)
    : inner_(inner),
      bug_(bug),
      seed_(seed) {}

  void listen(net::endpoint_events events) override {
    auto arrived = std::move(events.arrived);
    events.arrived = [this, arrived = std::move(arrived)](const net::transfer& what) {
      if (bug_ == seeded_bug::swapped_payload) {
        const std::lock_guard lock(guard_);
        here_.push_back(what);
      }
      arrived(what);
    };
    inner_.listen(std::move(events));
  }

  void send(const net::transfer& what, kernels::tensor_list tensors) override {
    const bool now = strikes(what, seed_);
    if (now && bug_ == seeded_bug::lost_message)
      return;
    if (now && bug_ == seeded_bug::early_reuse)
      for (auto& each : tensors)
        if (each && each.unique()) // Its sender is done with it: the pool would give it away again.
          std::ranges::fill(each.bytes_span(), std::byte{0xFF});
    inner_.send(what, std::move(tensors));
  }

  kernels::tensor_list take(const net::transfer& what, kernels::buffer_pool& pool) override {
    if (bug_ != seeded_bug::swapped_payload)
      return inner_.take(what, pool);
    if (auto kept = swapped_.extract(number_of(what)); !kept.empty())
      return std::move(kept.mapped());
    auto mine = inner_.take(what, pool);
    const auto other = strikes(what, seed_) ? beside(what) : std::nullopt;
    forget_arrival(what);
    if (!other)
      return mine;
    auto others = inner_.take(*other, pool);
    forget_arrival(*other);
    if (!same_shapes(mine, others))
      std::swap(mine, others);
    swapped_[number_of(*other)] = std::move(mine);
    return others;
  }

  void forget(std::uint64_t epoch) override { inner_.forget(epoch); }

private:
  static std::uint64_t number_of(const net::transfer& what) {
    return draw(what.epoch, static_cast<std::uint64_t>(what.payload),
                static_cast<std::uint64_t>(what.from), static_cast<std::uint64_t>(what.chunk),
                static_cast<std::uint64_t>(what.micro_batch));
  }

  /// Another transfer of the edge that lies here too.
  std::optional<net::transfer> beside(const net::transfer& what) {
    const std::lock_guard lock(guard_);
    const auto found = std::ranges::find_if(here_, [&](const net::transfer& other) {
      return same_edge(other, what) && other.micro_batch != what.micro_batch;
    });
    return found == here_.end() ? std::nullopt : std::optional{*found};
  }

  void forget_arrival(const net::transfer& what) {
    const std::lock_guard lock(guard_);
    std::erase(here_, what);
  }

  net::endpoint& inner_;
  seeded_bug bug_;
  std::uint64_t seed_;
  std::mutex guard_;                                      // of here_
  std::vector<net::transfer> here_;                       // arrived, not taken
  std::map<std::uint64_t, kernels::tensor_list> swapped_; // by transfer; the owner's thread only
};

class broken_network final : public net::network {
public:
  broken_network(std::shared_ptr<net::network> inner, seeded_bug bug, std::int32_t stages,
                 std::uint64_t seed)
    : inner_(std::move(inner)),
      stages_(stages) {
    for (std::int32_t rank = 0; rank < stages; ++rank)
      ends_.push_back(std::make_unique<broken_endpoint>(inner_->at(rank), bug, seed));
  }

  net::endpoint& at(std::int32_t rank) override {
    return rank < stages_ ? *ends_[static_cast<std::size_t>(rank)] : inner_->at(rank);
  }

private:
  std::shared_ptr<net::network> inner_;
  std::int32_t stages_;
  std::vector<std::unique_ptr<broken_endpoint>> ends_;
};

void swap_two(std::vector<plan::lane_entry>& lane, std::uint64_t seed) {
  if (lane.size() > 1)
    std::swap(lane[draw(seed, 1) % (lane.size() - 1)], lane.back());
}

} // namespace

std::span<const named_bug> all_seeded_bugs() {
  return bugs;
}

std::string_view name_of(seeded_bug bug) {
  const auto found = std::ranges::find(bugs, bug, &named_bug::bug);
  return found == bugs.end() ? "none" : found->name;
}

void break_plan(plan::plan& checked, seeded_bug bug, std::uint64_t seed) {
  if (draw(seed) % trials_between != 0)
    return;
  auto& mine = checked.by_rank[draw(seed, 0) % checked.by_rank.size()];
  switch (bug) {
  case seeded_bug::credit_too_few:
    mine.credits = std::max(mine.credits - 1, 1); // With none at all, it would be too easy.
    break;
  case seeded_bug::credit_too_many:
    ++mine.credits;
    break;
  case seeded_bug::unordered_lane:
    swap_two(draw(seed, 2) % 2 == 0 ? mine.forwards : mine.backwards, seed);
    break;
  default:
    break;
  }
}

std::shared_ptr<net::network> break_network(std::shared_ptr<net::network> inner, seeded_bug bug,
                                            std::int32_t stages, std::uint64_t seed) {
  const bool on_the_way = bug == seeded_bug::lost_message || bug == seeded_bug::swapped_payload
                       || bug == seeded_bug::early_reuse;
  if (!on_the_way)
    return inner;
  return std::make_shared<broken_network>(std::move(inner), bug, stages, seed);
}

} // namespace sluice::stress
