#include "actors/fit_memory.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/model_layout.hpp"
#include "actors/plan/credits.hpp"
#include "kernels/nn/footprint.hpp"

namespace sluice::actors {

namespace {

using kernels::nn::footprint;

/// By chunk: each route is a whole model.
std::vector<footprint> footprints(const pipeline_options& options, const model_layout& layout,
                                  const batch_part& sample) {
  const auto& plan = options.plan;
  const auto kind =
    plan::splits(plan) ? kernels::nn::backward_kind::split : kernels::nn::backward_kind::whole;
  auto inputs = sample.inputs;
  inputs.insert(inputs.end(), sample.targets.begin(), sample.targets.end());
  std::vector<kernels::nn::stage_module*> module_of(plan.chunks.size());
  for (const auto& hosted : layout.chunks)
    for (const auto& each : hosted)
      module_of[static_cast<std::size_t>(each.chunk)] = each.module.get();
  std::vector<footprint> all(plan.chunks.size());
  for (const auto& route : plan.routes) {
    kernels::stream stream(kernels::make_cpu_device(), options.threads);
    std::vector<kernels::nn::stage_module*> modules;
    for (const auto chunk : route)
      modules.push_back(module_of[static_cast<std::size_t>(chunk)]);
    const auto measured = kernels::nn::measure_footprints(stream, modules, inputs, kind);
    for (std::size_t i = 0; i < route.size(); ++i)
      all[static_cast<std::size_t>(route[i])] = measured[i];
  }
  return all;
}

/// What a rank needs whatever its credits are: states, scratch, and the gradients that other
/// holders of its shared parameters send.
double fixed_bytes(const pipeline_options& options, const model_layout& layout,
                   const std::vector<footprint>& by_chunk, std::int32_t rank) {
  const auto slots = options.optimizer->state_names().size();
  std::size_t bytes = 0;
  std::size_t scratch = 0;
  std::size_t largest = 0;
  for (const auto& hosted : layout.chunks[static_cast<std::size_t>(rank)]) {
    const auto& of = by_chunk[static_cast<std::size_t>(hosted.chunk)];
    bytes += of.state_bytes + slots * of.state_bytes / 2; // a state is as large as the value
    scratch = std::max(scratch, of.scratch_bytes);
    for (const auto& parameter : hosted.module->parameters())
      largest = std::max(largest, parameter.value.bytes());
  }
  const auto is_here = [&](const parameter_holder& holder) { return holder.rank == rank; };
  const bool shares = std::ranges::any_of(layout.shared, [&](const shared_parameter& each) {
    return std::ranges::any_of(each.holders, is_here);
  });
  return static_cast<double>(bytes + scratch + (shares ? 2 * largest : largest));
}

} // namespace

void fit_credits_to_memory(pipeline_options& options, const batch_part& sample) {
  if (options.memory_bytes == 0)
    throw std::invalid_argument("credits by memory need a limit of memory");
  if (!options.optimizer)
    options.optimizer = kernels::nn::make_adamw({});
  auto& plan = options.plan;
  const auto layout = lay_out(layout_of(options));
  const auto by_chunk = footprints(options, layout, sample);
  std::vector<double> activations;
  for (const auto& of : by_chunk)
    activations.push_back(static_cast<double>(of.held_bytes));
  std::vector<double> budgets;
  for (std::int32_t rank = 0; rank < plan.ranks; ++rank) {
    const auto fixed = fixed_bytes(options, layout, by_chunk, rank);
    budgets.push_back(static_cast<double>(options.memory_bytes) - fixed);
    if (budgets.back() < 0)
      throw std::invalid_argument(
        fmt::format("rank {} needs {:.0f} bytes for weights, gradients, optimizer and scratch "
                    "alone, but has {}",
                    rank, fixed, options.memory_bytes));
  }
  plan::fit_credits(plan, activations, budgets);
}

} // namespace sluice::actors
