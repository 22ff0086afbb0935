#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "actors/events.hpp"
#include "actors/model_layout.hpp"
#include "actors/plan/dispatch.hpp"
#include "actors/stage.hpp"
#include "kernels/nn/optimizer.hpp"
#include "net/endpoint.hpp"

namespace sluice::actors {

/// What all stages of a run are made with, in whatever process they are.
struct stage_materials {
  const plan::plan& training;
  std::shared_ptr<const kernels::nn::optimizer> optimizer;
  std::shared_ptr<net::network> network;
  /// Each rank's device. Empty: the processor.
  std::function<std::shared_ptr<kernels::device>(std::int32_t rank)> device = {};
  int threads = 1;
  std::size_t memory_bytes = 0; ///< limit of each stage; 0: none
  std::chrono::nanoseconds patience = plan::default_patience;
  std::shared_ptr<const step_events> events = {}; ///< null: nobody listens
};

/// Makes what the stage actor of a rank needs; takes the rank's chunks out of the layout.
std::shared_ptr<stage_config> make_stage(std::int32_t rank, const stage_materials& with,
                                         model_layout& layout);

} // namespace sluice::actors
