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
  auto inputs = sample.inputs;
  inputs.insert(inputs.end(), sample.targets.begin(), sample.targets.end());
  const kernels::nn::footprint_request with{.inputs = inputs,
                                            .kind = plan::splits(plan)
                                                    ? kernels::nn::backward_kind::split
                                                    : kernels::nn::backward_kind::whole,
                                            .slots = options.optimizer->state_names().size()};
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
    const auto measured = kernels::nn::measure_footprints(stream, modules, with);
    for (std::size_t i = 0; i < route.size(); ++i)
      all[static_cast<std::size_t>(route[i])] = measured[i];
  }
  return all;
}

/// What one rank needs, as rank_work::end() reserves it.
struct rank_needs {
  double fixed_bytes = 0;      ///< whatever its credits are: states, scratch, shared gradients
  double activation_bytes = 0; ///< for each activation, of whichever of its chunks
};

rank_needs needs_of(const model_layout& layout, const std::vector<footprint>& by_chunk,
                    std::int32_t rank) {
  kernels::buffer_pool::task_demand neediest;
  std::size_t states = 0;
  std::size_t largest = 0;
  for (const auto& hosted : layout.chunks[static_cast<std::size_t>(rank)]) {
    const auto& of = by_chunk[static_cast<std::size_t>(hosted.chunk)];
    states += of.state_bytes + of.beside_bytes;
    neediest.widen(of.demand);
    for (const auto& parameter : hosted.module->parameters())
      largest = std::max(largest, parameter.gradient.bytes());
  }
  const auto is_here = [&](const parameter_holder& holder) { return holder.rank == rank; };
  const bool shares = std::ranges::any_of(layout.shared, [&](const shared_parameter& each) {
    return std::ranges::any_of(each.holders, is_here);
  });
  const auto fixed = states + neediest.dropped_bytes() + (shares ? 2 * largest : largest);
  return {static_cast<double>(fixed), static_cast<double>(neediest.kept_bytes())};
}

/// What the trainer sends into the ends of a route with each micro-batch, copied into their pools.
double sent_bytes(const batch_part& sample) {
  std::size_t bytes = 0;
  for (const auto* list : {&sample.inputs, &sample.targets})
    for (const auto& each : *list)
      bytes += each.bytes();
  return 1.125 * static_cast<double>(bytes); // buffers are that much larger at most
}

bool is_at_an_end(const plan::plan& of, std::int32_t rank) {
  return std::ranges::any_of(of.routes, [&](const auto& route) {
    return of.chunks[static_cast<std::size_t>(route.front())].rank == rank
        || of.chunks[static_cast<std::size_t>(route.back())].rank == rank;
  });
}

} // namespace

void fit_credits_to_memory(pipeline_options& options, const batch_part& sample) {
  if (options.memory_bytes == 0)
    throw std::invalid_argument("credits by memory need a limit of memory");
  use_recipes(options);
  auto& plan = options.plan;
  const auto layout = lay_out(layout_of(options));
  const auto by_chunk = footprints(options, layout, sample);
  std::vector<double> activations(plan.chunks.size());
  std::vector<double> budgets;
  for (std::int32_t rank = 0; rank < plan.ranks; ++rank) {
    const auto needs = needs_of(layout, by_chunk, rank);
    for (const auto& hosted : layout.chunks[static_cast<std::size_t>(rank)])
      activations[static_cast<std::size_t>(hosted.chunk)] =
        needs.activation_bytes + (is_at_an_end(plan, rank) ? sent_bytes(sample) : 0);
    budgets.push_back(static_cast<double>(options.memory_bytes) - needs.fixed_bytes);
    if (budgets.back() < 0)
      throw std::invalid_argument(
        fmt::format("rank {} needs {:.0f} bytes for weights, gradients, optimizer and scratch "
                    "alone, but has {}",
                    rank, needs.fixed_bytes, options.memory_bytes));
  }
  plan::fit_credits(plan, activations, budgets);
}

} // namespace sluice::actors
