#include "actors/rank_work.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include <fmt/format.h>

#include "actors/weight_versions.hpp"
#include "kernels/copy.hpp"

namespace sluice::actors {

using kernels::buffer_use;
using kernels::tensor_list;
using plan::task_kind;

/// A micro-batch between its forward and the end of its backward.
struct rank_work::in_flight {
  kernels::nn::activation saved;
  std::int32_t micro_batch = -1; ///< -1: free
  std::int32_t version = 0;      ///< of the weights that its forward used
};

struct rank_work::chunk_state {
  hosted_chunk hosted;
  std::vector<std::unique_ptr<in_flight>> slots; ///< as many as were ever in flight at once
  /// What each kind of task needed of the pool, noted at its first run.
  std::array<std::optional<kernels::buffer_pool::task_demand>, 4> demand;
  std::optional<weight_versions> versions;    ///< during an asynchronous step
  std::vector<std::int32_t> forward_versions; ///< of its forwards to come, the next one last

  /// Gives the modules the weights that a task is to use.
  void use(const plan::lane_entry& which) {
    if (versions)
      versions->use(which.version);
  }

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
    const auto found =
      std::ranges::find(slots, micro_batch, [](const auto& slot) { return slot->micro_batch; });
    if (found == slots.end())
      throw std::logic_error(
        fmt::format("chunk {} holds no activation of micro-batch {}", hosted.chunk, micro_batch));
    return **found;
  }
};

rank_work::rank_work(std::int32_t rank, kernels::stream on, std::vector<hosted_chunk> chunks,
                     parameter_set parameters)
  : rank_(rank),
    stream_(std::move(on)),
    parameters_(std::move(parameters)) {
  for (auto& each : chunks) {
    chunks_.push_back(std::make_unique<chunk_state>());
    chunks_.back()->hosted = std::move(each);
  }
}

rank_work::~rank_work() = default;

void rank_work::set_up(std::uint64_t seed) {
  for (auto& each : chunks_) {
    each->hosted.module->initialise(stream_, seed);
    parameters_.add(each->hosted);
  }
  parameters_.complete(stream_);
}

void rank_work::begin(const begin_step& step, const plan::plan& of, std::uint64_t seed) {
  step_ = step;
  context_ = {.purpose = step.purpose, .seed = seed, .step = step.step};
  plan_ = &of;
  losses_.clear();
  computed_losses_.clear();
  held_ = 0;
  peak_held_ = 0;
  stream_.pool().reset_peaks();
  if (step.purpose == kernels::nn::purpose::train)
    parameters_.zero_gradients();
  const auto& mine = of.by_rank[static_cast<std::size_t>(rank_)];
  for (auto& each : chunks_) {
    each->versions.reset();
    if (!of.asynchronous)
      continue;
    each->versions.emplace(parameters_, each->hosted.chunk);
    each->forward_versions.clear();
    for (const auto& entry : mine.forwards)
      if (entry.chunk == each->hosted.chunk)
        each->forward_versions.push_back(entry.version);
    std::ranges::reverse(each->forward_versions);
  }
}

rank_work::chunk_state& rank_work::chunk(std::int32_t id) {
  const auto found =
    std::ranges::find(chunks_, id, [](const auto& each) { return each->hosted.chunk; });
  if (found == chunks_.end())
    throw std::logic_error(fmt::format("rank {} does not host chunk {}", rank_, id));
  return **found;
}

kernels::nn::micro_batch rank_work::context(std::int32_t micro_batch) const {
  auto result = context_;
  result.first_sample = step_.first_samples.at(static_cast<std::size_t>(micro_batch));
  result.loss_scale = step_.loss_scales.at(static_cast<std::size_t>(micro_batch));
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
  saved.foreign.reset();
  for (auto& part : saved.parts)
    drop(part);
}

} // namespace

void rank_work::begin_task() {
  if (!reserved_ && step_.purpose == kernels::nn::purpose::train)
    stream_.pool().begin_task();
}

void rank_work::end_task(const plan::task& which, const tensor_list& results) {
  if (reserved_ || step_.purpose != kernels::nn::purpose::train)
    return;
  auto& demand = chunk(which.chunk).demand[static_cast<std::size_t>(which.kind)];
  const auto noted = stream_.pool().end_task();
  kernels::buffer_pool::task_demand given;
  for (const auto& each : results)
    if (each)
      given.keep(each.bytes());
  result_demand_.widen(given);
  if (!demand)
    demand = noted;
}

tensor_list rank_work::forward(const plan::lane_entry& which, tensor_list inputs) {
  auto& of = chunk(which.chunk);
  auto& slot = of.start(which.micro_batch);
  peak_held_ = std::max(peak_held_, ++held_);
  of.use(which);
  slot.version = which.version;
  if (of.versions)
    of.forward_versions.pop_back();
  auto outputs =
    of.hosted.module->forward(stream_, context(which.micro_batch), std::move(inputs), slot.saved);
  charge_as_activation(slot.saved);
  if (step_.purpose != kernels::nn::purpose::predict) {
    const auto count = of.hosted.losses;
    for (std::int32_t i = 0; i < count; ++i)
      computed_losses_.push_back(
        {which.micro_batch, of.hosted.first_loss + i, outputs.at(static_cast<std::size_t>(i))});
    if (stream_.where().is_host()) // else the device is not waited for
      losses();
    outputs.erase(outputs.begin(), outputs.begin() + count);
    if (plan_->route(which.micro_batch).back() == which.chunk)
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
  auto context = this->context(which.micro_batch);
  context.split = which.split;
  of.use(which);
  if (!gradients.empty()) // its losses have none
    gradients.insert(gradients.begin(), static_cast<std::size_t>(of.hosted.losses), {});
  tensor_list results;
  results = of.hosted.module->backward_input(stream_, context, std::move(gradients), slot.saved);
  if (!which.split)
    of.hosted.module->backward_weight(stream_, context, slot.saved);
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
  of.use(which);
  of.hosted.module->backward_weight(stream_, context(which.micro_batch), slot.saved);
  release(slot);
}

void rank_work::update(const plan::lane_entry& which) {
  auto& of = chunk(which.chunk);
  if (!of.versions)
    throw std::logic_error("an update within a step of a synchronous plan");
  // Updates are counted over all steps, since the optimizer's bias correction goes by that.
  const auto& lane = plan_->by_rank[static_cast<std::size_t>(rank_)].updates;
  const auto a_step = std::ranges::count(lane, which.chunk, &plan::lane_entry::chunk);
  of.versions->update(stream_, {.epoch = step_.epoch,
                                .step = step_.step * static_cast<std::uint64_t>(a_step)
                                      + static_cast<std::uint64_t>(of.versions->newest()),
                                .learning_rate = step_.learning_rate});
  forget_versions(of);
}

/// Drops the versions that neither a forward to come nor a micro-batch in flight needs.
void rank_work::forget_versions(chunk_state& of) {
  auto needed = of.forward_versions.empty() ? of.versions->newest() : of.forward_versions.back();
  for (const auto& slot : of.slots)
    if (slot->micro_batch >= 0)
      needed = std::min(needed, slot->version);
  of.versions->drop_below(needed);
}

void rank_work::release(in_flight& slot) noexcept {
  drop(slot.saved);
  slot.micro_batch = -1;
  --held_;
}

std::vector<parameter_set::twin> rank_work::own_twins() {
  stream_.pool().begin_task();
  auto twins = parameters_.own_twins(stream_);
  twin_demand_ = stream_.pool().end_task();
  return twins;
}

/// What the credits allow the chunks to hold, any step may come to hold, whatever the timing: takes
/// it from the device at the end of the first one. The activations that a rank may hold can be any
/// mix of its chunks', so there is room for as many of the neediest, size by size.
void rank_work::end() {
  for (auto& of : chunks_)
    if (of->versions)
      of->versions->use(of->versions->newest());
  if (step_.purpose != kernels::nn::purpose::train || reserved_)
    return;
  reserved_ = true;
  const auto credits = [&](std::int32_t rank) {
    return plan_->by_rank[static_cast<std::size_t>(rank)].credits;
  };
  // A gradient that was sent is held by its receiver, as long as that holds the activation.
  const plan::topology links(*plan_);
  auto most = credits(rank_);
  kernels::buffer_pool::task_demand neediest;
  for (const auto& of : chunks_) {
    kernels::buffer_pool::task_demand one;
    for (const auto& demand : of->demand)
      if (demand)
        one.add(*demand, 1);
    neediest.widen(one);
    for (const auto source : links.sources(of->hosted.chunk))
      most = std::max(most, credits(plan_->chunks[static_cast<std::size_t>(source)].rank));
  }
  const auto& mine = plan_->by_rank[static_cast<std::size_t>(rank_)];
  auto total = twin_demand_;
  total.add(neediest, std::min(static_cast<std::size_t>(most), mine.forwards.size()));
  // Results of tasks in the device's queue wait there for their turn.
  total.add(result_demand_, static_cast<std::size_t>(mine.look_ahead.value_or(0)));
  stream_.pool().reserve(total);
}

void rank_work::abandon() noexcept {
  for (auto& of : chunks_)
    for (auto& slot : of->slots)
      if (slot->micro_batch >= 0)
        release(*slot);
  losses_.clear();
  computed_losses_.clear();
}

const std::vector<micro_batch_loss>& rank_work::losses() {
  for (const auto& each : computed_losses_)
    losses_.push_back({each.micro_batch, each.which, kernels::read_scalar(each.value)});
  computed_losses_.clear();
  return losses_;
}

stage_memory rank_work::memory() {
  const auto usage = stream_.pool().usage();
  std::int32_t versions = 1;
  for (const auto& of : chunks_)
    if (of->versions)
      versions = std::max(versions, of->versions->peak());
  return {.peak_activations = peak_held_,
          .peak_activation_bytes = usage.peak(buffer_use::activation),
          .peak_transfer_bytes = usage.peak(buffer_use::transfer),
          .peak_bytes = usage.peak_total_bytes,
          .peak_weight_versions = versions,
          .device_allocations = usage.device_allocations};
}

} // namespace sluice::actors
