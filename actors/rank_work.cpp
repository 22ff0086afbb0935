#include "actors/rank_work.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/ops/add.hpp"
#include "kernels/ops/sum_of_squares.hpp"

namespace sluice::actors {

using kernels::buffer_use;
using kernels::tensor;
using kernels::tensor_list;
using plan::task_kind;

namespace {

/// Routes come before a model's own order of accumulators: DualPipe adds the two halves of the
/// micro-batches, each of which is summed as one device would.
constexpr std::int32_t ordinals_per_route = 8;

} // namespace

std::int32_t ordinal_of(const hosted_chunk& chunk, const kernels::nn::parameter& of) {
  return chunk.route * ordinals_per_route + of.accumulator;
}

/// A micro-batch between its forward and the end of its backward.
struct rank_work::in_flight {
  kernels::nn::activation saved;
  std::int32_t micro_batch = -1; ///< -1: free
};

struct rank_work::chunk_state {
  hosted_chunk hosted;
  std::vector<std::unique_ptr<in_flight>> slots; ///< as many as were ever in flight at once
  /// What each kind of task needed of the pool, noted at its first run.
  std::array<std::optional<kernels::buffer_pool::task_demand>, 3> demand;

  in_flight& start(std::int32_t micro_batch) {
    auto found = std::ranges::find(slots, -1, [](const auto& slot) { return slot->micro_batch; });
    if (found == slots.end()) {
      slots.push_back(std::make_unique<in_flight>());
      slots.back()->saved = hosted.module->make_activation();
      found = slots.end() - 1;
    }
    (*found)->micro_batch = micro_batch;
    return **found;
  }

  in_flight& of(std::int32_t micro_batch) {
    const auto found
      = std::ranges::find(slots, micro_batch, [](const auto& slot) { return slot->micro_batch; });
    if (found == slots.end())
      throw std::logic_error(fmt::format("chunk {} holds no activation of micro-batch {}",
                                         hosted.chunk, micro_batch));
    return **found;
  }
};

/// One parameter of this rank, with all its accumulators here.
struct rank_work::held_parameter {
  std::string name;
  std::vector<std::pair<std::int32_t, kernels::nn::parameter*>> accumulators; ///< by ordinal
  std::int32_t shared = -1; ///< index into the shared parameters, or -1
  bool owner = true;        ///< this rank is the first holder
  tensor_list state;        ///< of the optimizer
  tensor sum;               ///< of a shared parameter's gradients, once combined

  kernels::nn::parameter& lead() const { return *accumulators.front().second; }
  const tensor& gradient() const { return sum ? sum : lead().gradient; }
};

rank_work::rank_work(std::int32_t rank, kernels::stream on, std::vector<hosted_chunk> chunks,
                     std::vector<shared_parameter> shared,
                     std::shared_ptr<const kernels::nn::optimizer> update)
  : rank_(rank), stream_(std::move(on)), shared_(std::move(shared)), optimizer_(std::move(update)) {
  for (auto& each : chunks) {
    chunks_.push_back(std::make_unique<chunk_state>());
    chunks_.back()->hosted = std::move(each);
  }
}

rank_work::~rank_work() = default;

// -- parameters --------------------------------------------------------------------------------

void rank_work::set_up(std::uint64_t seed) {
  for (auto& each : chunks_) {
    each->hosted.module->initialise(stream_, seed);
    for (auto& of : each->hosted.module->parameters()) {
      const auto ordinal = ordinal_of(each->hosted, of);
      auto found = std::ranges::find(parameters_, of.name, &held_parameter::name);
      if (found == parameters_.end()) {
        parameters_.push_back({.name = of.name, .accumulators = {}, .state = {}});
        found = parameters_.end() - 1;
      } else {
        of.value = found->lead().value; // Tied on this device: one copy.
      }
      found->accumulators.emplace_back(ordinal, &of);
    }
  }
  for (auto& each : parameters_) {
    std::ranges::sort(each.accumulators, {}, [](const auto& pair) { return pair.first; });
    const auto found = std::ranges::find(shared_, each.name, &shared_parameter::name);
    if (found != shared_.end()) {
      each.shared = static_cast<std::int32_t>(found - shared_.begin());
      each.owner = found->holders.front().rank == rank_;
      foreign_twins_ += static_cast<std::size_t>(std::ranges::count_if(
        found->holders, [&](const auto& holder) { return holder.rank != rank_; }));
    }
    each.state = optimizer_->make_state(stream_, each.lead());
    for (auto& slot : each.state)
      slot.set_use(buffer_use::parameter);
    for (auto& [ordinal, of] : each.accumulators) {
      of->value.set_use(buffer_use::parameter);
      of->gradient.set_use(buffer_use::parameter);
    }
  }
}

const rank_work::held_parameter& rank_work::named(const std::string& name) const {
  const auto found = std::ranges::find(parameters_, name, &held_parameter::name);
  if (found == parameters_.end())
    throw std::invalid_argument(fmt::format("rank {} holds no parameter {}", rank_, name));
  return *found;
}

std::vector<rank_work::twin> rank_work::own_twins() {
  std::vector<twin> twins;
  for (const auto& each : parameters_) {
    if (each.shared < 0)
      continue;
    for (const auto& [ordinal, of] : each.accumulators) {
      // Copies: combine() works in place, perhaps while these are still being sent.
      auto copy = stream_.allocate(of->gradient.type(), of->gradient.shape());
      std::ranges::copy(std::as_const(of->gradient).bytes_span(), copy.bytes_span().begin());
      twins.push_back({each.shared, ordinal, std::move(copy)});
    }
  }
  return twins;
}

void rank_work::combine(std::vector<twin> received) {
  for (auto& each : parameters_) {
    if (each.shared < 0)
      continue;
    std::vector<std::pair<std::int32_t, tensor>> parts;
    for (const auto& [ordinal, of] : each.accumulators)
      parts.emplace_back(ordinal, of->gradient);
    for (auto& other : received)
      if (other.parameter == each.shared)
        parts.emplace_back(other.ordinal, other.gradient);
    std::ranges::sort(parts, {}, [](const auto& part) { return part.first; });
    // The first part becomes the sum; it is ours to change, whether own or received.
    auto& sum = parts.front().second;
    for (std::size_t i = 1; i < parts.size(); ++i)
      kernels::ops::add_into(stream_, sum, parts[i].second);
    each.sum = sum;
  }
}

std::vector<gradient_square> rank_work::squares() {
  std::vector<gradient_square> result;
  for (const auto& each : parameters_)
    if (each.owner)
      result.push_back({each.name, kernels::ops::sum_of_squares(stream_, each.gradient())});
  return result;
}

void rank_work::update(std::uint64_t step, double learning_rate, double gradient_scale) {
  for (auto& each : parameters_)
    optimizer_->step(stream_, each.lead(), each.gradient(), each.state,
                     {.step = step, .learning_rate = learning_rate, .gradient_scale = gradient_scale});
}

std::vector<std::string> rank_work::owned_names() const {
  std::vector<std::string> names;
  for (const auto& each : parameters_)
    if (each.owner)
      names.push_back(each.name);
  return names;
}

std::vector<std::string> rank_work::optimizer_slots() const {
  return optimizer_->state_names();
}

tensor_list rank_work::state_of(const std::string& name) const {
  const auto& of = named(name);
  tensor_list all{of.lead().value};
  all.insert(all.end(), of.state.begin(), of.state.end());
  return all;
}

void rank_work::install(const std::string& name, const tensor_list& state) {
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
    std::ranges::copy(state[i].bytes_span(), mine[i].bytes_span().begin());
  }
}

// -- a step ------------------------------------------------------------------------------------

void rank_work::begin(const begin_step& step, const plan::plan& of, std::uint64_t seed) {
  step_ = {.purpose = step.purpose,
           .seed = seed,
           .step = step.step,
           .first_sample = 0,
           .loss_scale = step.loss_scale};
  plan_ = &of;
  first_samples_ = step.first_samples;
  losses_.clear();
  held_ = 0;
  peak_held_ = 0;
  stream_.pool().reset_peaks();
  if (step.purpose != kernels::nn::purpose::train)
    return;
  for (auto& each : parameters_) {
    each.sum = {};
    for (auto& [ordinal, parameter] : each.accumulators)
      std::ranges::fill(parameter->gradient.bytes_span(), std::byte{0});
  }
}

rank_work::chunk_state& rank_work::chunk(std::int32_t id) {
  const auto found
    = std::ranges::find(chunks_, id, [](const auto& each) { return each->hosted.chunk; });
  if (found == chunks_.end())
    throw std::logic_error(fmt::format("rank {} does not host chunk {}", rank_, id));
  return **found;
}

kernels::nn::micro_batch rank_work::context(std::int32_t micro_batch) const {
  auto result = step_;
  result.first_sample = first_samples_.at(static_cast<std::size_t>(micro_batch));
  return result;
}

namespace {

void charge_as_activation(kernels::nn::activation& saved) {
  for (auto& each : saved.saved)
    each.set_use(buffer_use::activation);
  for (auto& part : saved.parts)
    charge_as_activation(part);
}

void drop(kernels::nn::activation& saved) {
  saved.saved.clear();
  for (auto& part : saved.parts)
    drop(part);
}

} // namespace

template <class Function>
void rank_work::noting_demand(chunk_state& of, task_kind kind, Function task) {
  auto& demand = of.demand[static_cast<std::size_t>(kind)];
  const bool first = !demand && step_.purpose == kernels::nn::purpose::train;
  if (first)
    stream_.pool().begin_task();
  task();
  if (first)
    demand = stream_.pool().end_task();
}

tensor_list rank_work::forward(const plan::lane_entry& which, tensor_list inputs) {
  auto& of = chunk(which.chunk);
  auto& slot = of.start(which.micro_batch);
  peak_held_ = std::max(peak_held_, ++held_);
  tensor_list outputs;
  noting_demand(of, task_kind::forward, [&] {
    outputs = of.hosted.module->forward(stream_, context(which.micro_batch), std::move(inputs),
                                        slot.saved);
  });
  charge_as_activation(slot.saved);
  const bool last = plan_->route(which.micro_batch).back() == which.chunk;
  if (last && step_.purpose != kernels::nn::purpose::predict) {
    losses_.push_back({which.micro_batch, outputs.at(0).span<double>()[0]});
    outputs.clear();
  }
  for (auto& each : outputs)
    each.set_use(buffer_use::transfer);
  if (step_.purpose != kernels::nn::purpose::train)
    release(slot);
  return outputs;
}

tensor_list rank_work::backward(const plan::lane_entry& which, tensor_list gradients) {
  auto& of = chunk(which.chunk);
  auto& slot = of.of(which.micro_batch);
  const auto context = this->context(which.micro_batch);
  tensor_list results;
  noting_demand(of, task_kind::backward, [&] {
    results = of.hosted.module->backward_input(stream_, context, std::move(gradients), slot.saved);
    if (!which.split)
      of.hosted.module->backward_weight(stream_, context, slot.saved);
  });
  for (auto& each : results)
    each.set_use(buffer_use::transfer);
  if (which.split)
    charge_as_activation(slot.saved);
  else
    release(slot);
  return results;
}

void rank_work::weight(const plan::lane_entry& which) {
  auto& of = chunk(which.chunk);
  auto& slot = of.of(which.micro_batch);
  noting_demand(of, task_kind::weight, [&] {
    of.hosted.module->backward_weight(stream_, context(which.micro_batch), slot.saved);
  });
  release(slot);
}

void rank_work::release(in_flight& slot) noexcept {
  drop(slot.saved);
  slot.micro_batch = -1;
  --held_;
}

/// What the credits allow a chunk to hold, any step may come to hold, whatever the timing: takes
/// it from the device at the end of the first one.
void rank_work::end() {
  if (step_.purpose != kernels::nn::purpose::train || reserved_)
    return;
  reserved_ = true;
  kernels::buffer_pool::task_demand total;
  const auto& mine = plan_->by_rank[static_cast<std::size_t>(rank_)];
  for (const auto& of : chunks_) {
    const auto runs = std::ranges::count(mine.forwards, of->hosted.chunk, &plan::lane_entry::chunk);
    const auto times = static_cast<std::size_t>(std::min<std::ptrdiff_t>(mine.credits, runs));
    for (const auto& demand : of->demand)
      if (demand)
        total.add(*demand, times);
  }
  stream_.pool().reserve(total);
}

void rank_work::abandon() noexcept {
  for (auto& of : chunks_)
    for (auto& slot : of->slots)
      if (slot->micro_batch >= 0)
        release(*slot);
  losses_.clear();
}

stage_memory rank_work::memory() const {
  const auto usage = stream_.pool().usage();
  return {.peak_activations = peak_held_,
          .peak_activation_bytes = usage.peak(buffer_use::activation),
          .peak_transfer_bytes = usage.peak(buffer_use::transfer),
          .peak_bytes = usage.peak_total_bytes,
          .device_allocations = usage.device_allocations};
}

} // namespace sluice::actors
