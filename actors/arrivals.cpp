#include "actors/arrivals.hpp"

#include <stdexcept>

#include <fmt/format.h>

namespace sluice::actors {

using plan::lane_entry;
using plan::task_kind;

void arrivals::begin(const plan::plan& of, std::int32_t rank, bool with_targets) {
  if (plan_ != &of)
    links_.emplace(of);
  plan_ = &of;
  rank_ = rank;
  with_targets_ = with_targets;
  cells_.assign(of.chunks.size() * static_cast<std::size_t>(of.micro_batches), {});
}

const arrivals::cell& arrivals::at(const lane_entry& which) const {
  return cells_[static_cast<std::size_t>(which.chunk)
                  * static_cast<std::size_t>(plan_->micro_batches)
                + static_cast<std::size_t>(which.micro_batch)];
}

arrivals::cell& arrivals::at(const lane_entry& which) {
  return const_cast<cell&>(std::as_const(*this).at(which));
}

bool arrivals::first(const lane_entry& which) const {
  return links_->sources(which.chunk).empty();
}

bool arrivals::last(const lane_entry& which) const {
  return links_->targets(which.chunk).empty();
}

void arrivals::note(const net::transfer& what) {
  const auto chunks = static_cast<std::int32_t>(plan_->chunks.size());
  const bool ours = what.chunk >= 0 && what.chunk < chunks && what.micro_batch >= 0
                    && what.micro_batch < plan_->micro_batches
                    && plan_->chunks[static_cast<std::size_t>(what.chunk)].rank == rank_;
  bool* flag = nullptr;
  if (ours) {
    const lane_entry which{what.chunk, what.micro_batch};
    auto& cell = at(which);
    switch (what.payload) {
      case net::payload::input: flag = first(which) ? &cell.input : nullptr; break;
      case net::payload::activation: flag = first(which) ? nullptr : &cell.input; break;
      case net::payload::gradient: flag = last(which) ? nullptr : &cell.gradient; break;
      case net::payload::target: flag = last(which) ? &cell.target : nullptr; break;
      default: break;
    }
  }
  if (flag == nullptr || *flag)
    throw std::logic_error(fmt::format("rank {} did not expect {}{}", rank_,
                                       net::to_string(what), flag != nullptr ? " twice" : ""));
  *flag = true;
}

void arrivals::note_done(const plan::task& task) {
  const lane_entry which{.chunk = task.chunk, .micro_batch = task.micro_batch};
  switch (task.kind) {
    case task_kind::forward: at(which).forward_done = true; break;
    case task_kind::backward: at(which).backward_done = true; break;
    case task_kind::weight:
    case task_kind::update: break;
  }
}

void arrivals::note_summed(const lane_entry& which) {
  at(which).summed = true;
}

bool arrivals::summed_up_to(const lane_entry& update) const {
  for (lane_entry each = update; each.micro_batch >= 0; --each.micro_batch)
    if (plan_->route_of[static_cast<std::size_t>(each.micro_batch)] == links_->route(update.chunk)
        && !at(each).summed)
      return false;
  return true;
}

bool arrivals::here(task_kind kind, const lane_entry& next) const {
  const auto& cell = at(next);
  switch (kind) {
    case task_kind::forward: return cell.input && (cell.target || !with_targets_ || !last(next));
    case task_kind::backward: return cell.forward_done && (last(next) || cell.gradient);
    case task_kind::weight: return cell.backward_done;
    case task_kind::update: return summed_up_to(next);
  }
  return false;
}

std::string arrivals::neighbour(std::string_view what, std::int32_t chunk) const {
  return fmt::format("the {} from chunk {} on rank {}", what, chunk,
                     plan_->chunks[static_cast<std::size_t>(chunk)].rank);
}

std::string arrivals::missing(task_kind kind, const lane_entry& next) const {
  if (here(kind, next))
    return "";
  switch (kind) {
    case task_kind::forward:
      if (at(next).input)
        return "the trainer's targets";
      return first(next) ? "the trainer's input"
                         : neighbour("activation", links_->sources(next.chunk).front());
    case task_kind::backward:
      return at(next).forward_done ? neighbour("gradient", links_->targets(next.chunk).front())
                                   : "its own forward";
    case task_kind::weight: return "its own backward";
    case task_kind::update: return "the gradients up to its micro-batch";
  }
  return "";
}

} // namespace sluice::actors
