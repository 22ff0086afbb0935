#include "actors/parameter_set.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/copy.hpp"
#include "kernels/nn/master.hpp"
#include "kernels/ops/add.hpp"
#include "kernels/ops/cast.hpp"
#include "kernels/ops/sum_of_squares.hpp"

namespace sluice::actors {

using kernels::buffer_use;
using kernels::tensor;
using kernels::tensor_list;

namespace {

/// Routes come before a model's own order of accumulators: DualPipe adds the two halves of the
/// micro-batches, each of which is summed as one device would.
constexpr std::int32_t ordinals_per_route = 8;

} // namespace

std::int32_t ordinal_of(const hosted_chunk& chunk, const kernels::nn::parameter& of) {
  return chunk.route * ordinals_per_route + of.accumulator;
}

std::vector<std::int32_t> shared_parameter::other_ranks(std::int32_t rank) const {
  std::set<std::int32_t> others;
  for (const auto& holder : holders)
    others.insert(holder.rank);
  others.erase(rank);
  return {others.begin(), others.end()};
}

parameter_set::parameter_set(std::int32_t rank, std::vector<shared_parameter> shared,
                             std::shared_ptr<const kernels::nn::optimizer> update)
  : rank_(rank),
    shared_(std::move(shared)),
    optimizer_(std::move(update)) {}

void parameter_set::add(const hosted_chunk& chunk) {
  for (auto& of : chunk.module->parameters()) {
    auto found = std::ranges::find(entries_, of.name, &entry::name);
    if (found == entries_.end()) {
      entries_.push_back({.name = of.name, .accumulators = {}, .chunk = chunk.chunk});
      found = entries_.end() - 1;
    } else {
      of.value = found->lead().value; // Tied on this device: one copy.
    }
    of.value.set_use(buffer_use::parameter);
    of.gradient.set_use(buffer_use::parameter);
    found->accumulators.emplace_back(ordinal_of(chunk, of), &of);
  }
}

void parameter_set::complete(kernels::stream& on) {
  for (auto& each : entries_) {
    std::ranges::sort(each.accumulators, {}, [](const auto& pair) { return pair.first; });
    const auto found = std::ranges::find(shared_, each.name, &shared_parameter::name);
    if (found != shared_.end()) {
      each.shared = static_cast<std::int32_t>(found - shared_.begin());
      each.owner = found->holders.front().rank == rank_;
      foreign_twins_ += static_cast<std::size_t>(std::ranges::count_if(
        found->holders, [&](const auto& holder) { return holder.rank != rank_; }));
    }
    each.master = kernels::nn::make_master(on, each.lead());
    each.state = optimizer_->make_state(on, each.updated());
    for (auto& slot : each.state)
      slot.set_use(buffer_use::parameter);
  }
}

void parameter_set::zero_gradients() {
  for (auto& each : entries_)
    for (auto& [ordinal, of] : each.accumulators)
      kernels::set_zero(of->gradient);
}

std::vector<parameter_set::twin> parameter_set::own_twins(kernels::stream& on) const {
  std::vector<twin> twins;
  for (const auto& each : entries_) {
    if (each.shared < 0)
      continue;
    for (const auto& [ordinal, of] : each.accumulators) {
      // Copies: combine() works in place, perhaps while these are still being sent.
      twins.push_back({each.shared, ordinal, kernels::copied(on, of->gradient)});
    }
  }
  return twins;
}

void parameter_set::combine(kernels::stream& on, std::vector<twin> received) {
  for (auto& each : entries_)
    combine(on, each, received);
}

void parameter_set::combine(kernels::stream& on, entry& of, std::vector<twin>& received) {
  if (of.shared < 0)
    return;
  std::vector<std::pair<std::int32_t, tensor>> parts;
  for (const auto& [ordinal, accumulator] : of.accumulators)
    parts.emplace_back(ordinal, accumulator->gradient);
  for (auto& other : received)
    if (other.parameter == of.shared)
      parts.emplace_back(other.ordinal, std::move(other.gradient));
  std::ranges::sort(parts, {}, [](const auto& part) { return part.first; });
  // The first part becomes the sum; it is ours to change, whether own or received.
  auto& sum = parts.front().second;
  for (std::size_t i = 1; i < parts.size(); ++i)
    kernels::ops::add_into(on, sum, parts[i].second);
  auto& gradient = of.lead().gradient;
  if (!sum.shares_buffer_with(gradient))
    kernels::copy(sum, gradient);
}

std::vector<gradient_square> parameter_set::squares(kernels::stream& on) const {
  std::vector<gradient_square> result;
  std::vector<tensor> gradients;
  for (const auto& each : entries_)
    if (each.owner) {
      result.push_back({each.name, 0});
      gradients.push_back(each.lead().gradient);
    }
  const auto sums = kernels::ops::sums_of_squares(on, gradients);
  for (std::size_t i = 0; i < sums.size(); ++i)
    result[i].sum = sums[i];
  return result;
}

std::vector<kernels::nn::parameter*> parameter_set::leads() const {
  std::vector<kernels::nn::parameter*> all;
  for (const auto& each : entries_)
    all.push_back(&each.lead());
  return all;
}

template <class Wanted>
void parameter_set::update_those(kernels::stream& on, const apply& with, Wanted wanted) {
  std::vector<kernels::nn::stateful_parameter> all;
  for (auto& each : entries_)
    if (wanted(each))
      all.push_back({&each.updated(), each.state});
  optimizer_->step_all(on, all, with.learning_rate, with.step + 1, with.gradient_scale);
  std::vector<kernels::ops::rounding> copies;
  for (auto& each : entries_)
    if (each.master && wanted(each))
      copies.push_back({each.master->value, each.lead().value});
  kernels::ops::round_all(on, copies);
}

void parameter_set::update(kernels::stream& on, const apply& with) {
  update_those(on, with, [](const entry&) { return true; });
}

void parameter_set::update_chunk(kernels::stream& on, std::int32_t chunk, const apply& with) {
  std::vector<twin> none;
  for (auto& each : entries_)
    if (each.chunk == chunk)
      combine(on, each, none);
  update_those(on, with, [&](const entry& each) { return each.chunk == chunk; });
  for (auto& each : entries_)
    if (each.chunk == chunk)
      for (auto& [ordinal, of] : each.accumulators)
        kernels::set_zero(of->gradient);
}

std::vector<tensor> parameter_set::values(std::int32_t chunk) const {
  std::vector<tensor> result;
  for (const auto& each : entries_)
    if (each.chunk == chunk)
      result.push_back(each.lead().value);
  return result;
}

void parameter_set::set_values(std::int32_t chunk, const std::vector<tensor>& values) {
  auto next = values.begin();
  for (auto& each : entries_) {
    if (each.chunk != chunk)
      continue;
    for (auto& [ordinal, of] : each.accumulators)
      of->value = *next;
    ++next;
  }
}

std::vector<std::string> parameter_set::owned_names() const {
  std::vector<std::string> names;
  for (const auto& each : entries_)
    if (each.owner)
      names.push_back(each.name);
  return names;
}

std::vector<std::string> parameter_set::optimizer_slots() const {
  const auto names = optimizer_->state_names();
  return {names.begin(), names.end()};
}

tensor_list parameter_set::state_of(const std::string& name) const {
  const auto found = std::ranges::find(entries_, name, &entry::name);
  if (found == entries_.end())
    throw std::invalid_argument(fmt::format("rank {} holds no parameter {}", rank_, name));
  tensor_list all{found->kept()};
  all.insert(all.end(), found->state.begin(), found->state.end());
  return all;
}

void parameter_set::install(kernels::stream& on, const std::string& name,
                            const tensor_list& state) {
  auto mine = state_of(name);
  if (state.size() != mine.size())
    throw std::invalid_argument(fmt::format("parameter {} comes with {} tensors, not {}: was it "
                                            "saved with another optimizer?",
                                            name, state.size(), mine.size()));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (state[i].type() != mine[i].type() || state[i].shape() != mine[i].shape())
      throw std::invalid_argument(
        fmt::format("parameter {} is {} {} here, and {} {} in what is installed", name,
                    kernels::name(mine[i].type()), to_string(mine[i].shape()),
                    kernels::name(state[i].type()), to_string(state[i].shape())));
    kernels::copy(state[i], mine[i]);
  }
  const auto found = std::ranges::find(entries_, name, &entry::name);
  if (found->master) {
    const kernels::ops::rounding copy{found->master->value, found->lead().value};
    kernels::ops::round_all(on, std::span(&copy, 1));
  }
}

} // namespace sluice::actors
