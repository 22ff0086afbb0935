#include "actors/make_stage.hpp"

#include <utility>

namespace sluice::actors {

std::shared_ptr<stage_config> make_stage(std::int32_t rank, const stage_materials& with,
                                         model_layout& layout) {
  auto stage = std::make_shared<stage_config>();
  stage->rank = rank;
  stage->training = with.training;
  stage->network = with.network;
  stage->shared = layout.shared;
  stage->patience = with.patience;
  stage->events = with.events;
  stage->work = std::make_unique<rank_work>(
    rank,
    kernels::stream(with.device ? with.device(rank) : kernels::make_cpu_device(), with.threads,
                    with.memory_bytes),
    std::move(layout.chunks[static_cast<std::size_t>(rank)]),
    parameter_set(rank, layout.shared, with.optimizer));
  auto& look_ahead = stage->training.by_rank[static_cast<std::size_t>(rank)].look_ahead;
  if (!look_ahead)
    look_ahead = stage->work->stream().where().is_host() ? 0 : 1;
  return stage;
}

} // namespace sluice::actors
