#include "bench/memory.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "actors/plan/simulate.hpp"
#include "bench/gpt_case.hpp"
#include "kernels/copy.hpp"
#include "kernels/nn/profile.hpp"
#include "kernels/nn/tie.hpp"

namespace sluice::bench {

namespace {

constexpr std::int32_t stages = 4;

using bytes_by_name = std::map<std::string, double>;

/// What each layer keeps of one micro-batch.
bytes_by_name measure_layers(const gpt_case& of, const actors::batch& data) {
  kernels::stream on(kernels::make_cpu_device());
  const auto layers = make_layers(of);
  for (const auto& layer : layers)
    layer->initialise(on, 1);
  kernels::nn::tie_parameters(kernels::nn::all_parameters(layers));
  kernels::tensor_list inputs;
  for (const auto* list : {&data.front().inputs, &data.front().targets})
    for (const auto& each : *list)
      inputs.push_back(kernels::copied(on, each));
  bytes_by_name made;
  for (const auto& each : kernels::nn::profile_layers(on, layers, inputs, 1))
    made[each.name] = static_cast<double>(each.activation_bytes);
  return made;
}

/// The peak of each rank, as a simulated plan takes micro-batches in and lets them go.
std::vector<double> predict(const plan::plan& of, const actors::pipeline& line,
                            const bytes_by_name& by_layer) {
  std::vector<double> held(static_cast<std::size_t>(of.ranks));
  std::vector<double> peak(held.size());
  struct change {
    double at;
    double bytes;
    std::int32_t rank;
  };
  std::vector<change> changes;
  const auto tasks = plan::simulate(of).tasks;
  std::set<std::pair<std::int32_t, std::int32_t>> split; // chunk, micro-batch
  for (const auto& each : tasks)
    if (each.what.kind == plan::task_kind::weight)
      split.insert({each.what.chunk, each.what.micro_batch});
  for (const auto& each : tasks) {
    double bytes = 0;
    const auto& place = of.chunks[static_cast<std::size_t>(each.what.chunk)];
    for (const auto& name : line.parts()[static_cast<std::size_t>(place.part)])
      bytes += by_layer.at(name);
    if (each.what.kind == plan::task_kind::forward)
      changes.push_back({each.start, bytes, each.rank});
    else if (each.what.kind == plan::task_kind::weight
             || !split.contains({each.what.chunk, each.what.micro_batch}))
      changes.push_back({each.end, -bytes, each.rank});
  }
  // What ends at a moment is given back before what begins then.
  std::ranges::stable_sort(changes, [](const change& a, const change& b) {
    return a.at != b.at ? a.at < b.at : a.bytes < b.bytes;
  });
  for (const auto& each : changes) {
    const auto rank = static_cast<std::size_t>(each.rank);
    held[rank] += each.bytes;
    peak[rank] = std::max(peak[rank], held[rank]);
  }
  return peak;
}

} // namespace

std::vector<measurement> measure_memory() {
  const gpt_case of;
  const auto data = make_batch(of);
  const auto by_layer = measure_layers(of, data);
  std::vector<measurement> lines;
  for (const auto& schedule : plan::all_schedules()) {
    const auto made =
      plan::make_plan(schedule.name, {.stages = stages, .micro_batches = of.micro_batches});
    if (made.asynchronous)
      continue;
    auto line = make_pipeline(of, schedule.name, stages);
    const auto report = line.step(data);
    const auto planned = predict(made, line, by_layer);
    for (std::size_t rank = 0; rank < planned.size(); ++rank)
      lines.push_back({fmt::format("{}, rank {}", schedule.name, rank),
                       static_cast<double>(report.stages[rank].memory.peak_activation_bytes),
                       "bytes", "planned", planned[rank]});
  }
  return lines;
}

} // namespace sluice::bench
