#include "actors/plan/ledger.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace sluice::plan {

ledger::ledger(const plan& of, const topology& feeds, std::int32_t rank)
  : of_{&of},
    feeds_{&feeds},
    rank_{rank} {
  for (std::size_t c = 0; c < of.chunks.size(); ++c)
    if (of.chunks[c].rank == rank)
      chunks_.push_back(static_cast<std::int32_t>(c));
  updates_.resize(chunks_.size());
  owed_.resize(chunks_.size());
  states_.resize(chunks_.size() * of.micro_batches);
  reset();
}

void ledger::reset(outside from_trainer) {
  now_ = {};
  peak_ = 0;
  std::fill(updates_.begin(), updates_.end(), 0);
  std::fill(owed_.begin(), owed_.end(), 0);
  for (auto& edge : edges_)
    edge.in_flight = 0;
  for (const auto chunk : chunks_) {
    const auto inputs = feeds_->sources(chunk).size()
                      + (feeds_->sources(chunk).empty() ? from_trainer.to_first : 0)
                      + (feeds_->targets(chunk).empty() ? from_trainer.to_last : 0);
    const auto gradients = std::max<std::size_t>(feeds_->targets(chunk).size(), 1);
    for (std::int32_t m = 0; m < of_->micro_batches; ++m)
      at(chunk, m) = {.forward_missing = static_cast<std::uint8_t>(inputs),
                      .backward_missing = static_cast<std::uint8_t>(gradients)};
  }
  look_at_heads();
}

ledger::state& ledger::at(std::int32_t chunk, std::int32_t micro_batch) {
  return states_[static_cast<std::size_t>(of_->chunks[chunk].local) * of_->micro_batches
                 + micro_batch];
}

const ledger::state& ledger::at(std::int32_t chunk, std::int32_t micro_batch) const {
  return const_cast<ledger*>(this)->at(chunk, micro_batch);
}

void ledger::broken(const task& which, const char* what) const {
  throw std::logic_error(fmt::format("rank {}: {} of micro-batch {} in chunk {}: {}", rank_,
                                     letter(which.kind), which.micro_batch, which.chunk, what));
}

void ledger::arrived(task_kind kind, std::int32_t chunk, std::int32_t micro_batch) {
  const task which{kind, chunk, micro_batch};
  const bool forward = kind == task_kind::forward;
  if (chunk < 0 || chunk >= static_cast<std::int32_t>(of_->chunks.size())
      || of_->chunks[chunk].rank != rank_ || micro_batch < 0 || micro_batch >= of_->micro_batches
      || feeds_->route(chunk) != of_->route_of[micro_batch])
    broken(which, "an input arrived that does not belong here");
  auto& missing =
    forward ? at(chunk, micro_batch).forward_missing : at(chunk, micro_batch).backward_missing;
  if (missing == 0 || (!forward && feeds_->targets(chunk).empty()))
    broken(which, "one input too many has arrived");
  --missing;
  look_at_heads();
}

std::int32_t& ledger::in_flight(task_kind kind, std::int32_t from, std::int32_t to) {
  for (auto& edge : edges_)
    if (edge.kind == kind && edge.from == from && edge.to == to)
      return edge.in_flight;
  edges_.push_back({kind, from, to, 0});
  return edges_.back().in_flight;
}

bool ledger::slots_free(const task& sender) const {
  if (of_->receive_slots == 0)
    return true;
  for (const auto to : feeds_->receivers(sender.kind, sender.chunk))
    for (const auto& edge : edges_)
      if (edge.kind == sender.kind && edge.from == sender.chunk && edge.to == to
          && edge.in_flight >= of_->receive_slots)
        return false;
  return true;
}

void ledger::hold_slots(const task& sender) {
  if (of_->receive_slots == 0)
    return;
  for (const auto to : feeds_->receivers(sender.kind, sender.chunk))
    if (of_->chunks[to].rank != rank_)
      ++in_flight(sender.kind, sender.chunk, to);
}

void ledger::slot_returned(task_kind kind, std::int32_t from, std::int32_t to) {
  auto& held = in_flight(kind, from, to);
  if (held == 0)
    broken({kind, from, 0}, "a receive slot came back that was not in use");
  --held;
  look_at_heads();
}

const lane_entry* ledger::head(task_kind kind) const {
  const std::int32_t started[] = {now_.forwards_started, now_.backwards_started,
                                  now_.weights_started, now_.updates_started};
  const auto& lane = mine().lane(kind);
  const auto next = static_cast<std::size_t>(started[static_cast<std::size_t>(kind)]);
  return next < lane.size() ? &lane[next] : nullptr;
}

void ledger::look_at_heads() {
  using enum task_kind;
  const auto* f = head(forward);
  const auto* b = head(backward);
  const auto* w = head(weight);
  const auto* u = head(update);
  now_.forward_here = f && at(f->chunk, f->micro_batch).forward_missing == 0
                   && updates_[of_->chunks[f->chunk].local] >= f->version
                   && slots_free({forward, f->chunk, f->micro_batch});
  // A whole backward adds its weight gradient at once: after those that were put off, so that a
  // chunk's gradients are summed in lane order whatever the timing.
  now_.backward_here = b && at(b->chunk, b->micro_batch).backward_missing == 0
                    && (b->split || owed_[of_->chunks[b->chunk].local] == 0)
                    && slots_free({backward, b->chunk, b->micro_batch});
  now_.weight_here = w && at(w->chunk, w->micro_batch).gradient_done;
  now_.update_here = u && at(u->chunk, u->micro_batch).summed;
}

std::optional<task> ledger::next() const {
  const auto kind = dispatch(mine(), now_);
  if (!kind)
    return std::nullopt;
  const auto* entry = head(*kind);
  return task{*kind, entry->chunk, entry->micro_batch};
}

std::string ledger::lacks(task_kind kind, const lane_entry& next) const {
  const auto& it = at(next.chunk, next.micro_batch);
  const auto from = [&](std::span<const std::int32_t> chunks, std::string_view outside) {
    std::string text;
    for (const auto chunk : chunks)
      text += fmt::format("{}chunk {} on rank {}", text.empty() ? "" : " and ", chunk,
                          of_->chunks[chunk].rank);
    return text.empty() ? std::string(outside) : text;
  };
  switch (kind) {
  case task_kind::forward:
    if (it.forward_missing > 0)
      return "an input from " + from(feeds_->sources(next.chunk), "the trainer");
    if (updates_[of_->chunks[next.chunk].local] < next.version)
      return "an update of its weights";
    if (now_.activations_held >= mine().credits)
      return "a credit";
    break;
  case task_kind::backward:
    if (it.backward_missing > 0)
      return "a gradient from " + from(feeds_->targets(next.chunk), "its own forward");
    break;
  case task_kind::weight:
    if (!it.gradient_done)
      return "its own backward";
    break;
  case task_kind::update:
    if (!it.summed)
      return "its gradients";
    break;
  }
  return slots_free({kind, next.chunk, next.micro_batch}) ? "its turn" : "a receive slot";
}

std::string ledger::waits_for() const {
  auto text = fmt::format("{} of {} credits in use", now_.activations_held, mine().credits);
  using enum task_kind;
  for (const auto kind : {forward, backward, weight, update})
    if (const auto* next = head(kind))
      text +=
        fmt::format("; {} needs {}", to_string(*of_, task{kind, next->chunk, next->micro_batch}),
                    lacks(kind, *next));
  return text;
}

void ledger::start(const task& which) {
  const auto* entry = head(which.kind);
  if (!entry || entry->chunk != which.chunk || entry->micro_batch != which.micro_batch)
    broken(which, "started out of its lane's order");
  switch (which.kind) {
  case task_kind::forward:
    ++now_.forwards_started;
    peak_ = std::max(peak_, ++now_.activations_held);
    break;
  case task_kind::backward:
    owed_[of_->chunks[which.chunk].local] += entry->split ? 1 : 0;
    ++now_.backwards_started;
    break;
  case task_kind::weight:
    --owed_[of_->chunks[which.chunk].local];
    ++now_.weights_started;
    break;
  case task_kind::update:
    ++now_.updates_started;
    break;
  }
  hold_slots(which);
  look_at_heads();
}

void ledger::finish(const task& which) {
  auto& it = at(which.chunk, which.micro_batch);
  switch (which.kind) {
  case task_kind::forward:
    if (of_->forward_only)
      --now_.activations_held;
    else if (feeds_->targets(which.chunk).empty())
      it.backward_missing = 0;
    break;
  case task_kind::backward: {
    it.gradient_done = true;
    // Tasks run one at a time and in lane order, so this is among the last few started.
    const auto& lane = mine().backwards;
    auto at = static_cast<std::size_t>(now_.backwards_started);
    while (at > 0
           && (lane[at - 1].chunk != which.chunk || lane[at - 1].micro_batch != which.micro_batch))
      --at;
    if (at == 0)
      broken(which, "finished before it started");
    if (!lane[at - 1].split) {
      it.summed = true;
      --now_.activations_held;
    }
    break;
  }
  case task_kind::weight:
    it.summed = true;
    --now_.activations_held;
    break;
  case task_kind::update:
    ++updates_[of_->chunks[which.chunk].local];
    break;
  }
  look_at_heads();
}

} // namespace sluice::plan
