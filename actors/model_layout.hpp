#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/plan/partition.hpp"
#include "actors/plan/plan.hpp"
#include "actors/rank_work.hpp"
#include "kernels/nn/stage_module.hpp"
#include "kernels/nn/wire.hpp"

namespace sluice::actors {

struct pipeline_options;

/// A model cut into the chunks of a plan, before any stage exists.
struct model_layout {
  std::vector<std::vector<hosted_chunk>> chunks;     ///< by rank
  std::vector<shared_parameter> shared;              ///< with more than one holder
  std::vector<std::vector<std::string>> names;       ///< parameters by rank, each once
  std::vector<std::vector<std::string>> part_layers; ///< names of the layers of each part
  /// (part, part) of values that pass over others on their way, where the layers have ports.
  std::vector<std::pair<std::size_t, std::size_t>> leaps;
};

/// What the layout is made from.
struct layout_request {
  const plan::plan& plan;
  std::function<std::vector<kernels::nn::module_ptr>()> layers;
  std::vector<std::size_t> cut;    ///< layers of each part, by hand; empty: by costs
  std::vector<double> layer_costs; ///< empty: all the same
  bool recompute = false;
  std::vector<std::int32_t> recompute_ranks = {}; ///< if not empty: only the chunks of these
  kernels::nn::model_values values = {};          ///< names, for layers with ports

  bool recomputes(std::int32_t rank) const;
};

/// What a pipeline's options ask for.
layout_request layout_of(const pipeline_options& options);

/// Gives each layer to exactly one part, and each part to its chunk on every route.
/// Errors: std::invalid_argument for fewer layers than parts, a cut that does not add up, or a
/// number of costs that is not the number of layers.
model_layout lay_out(const layout_request& wanted);

} // namespace sluice::actors
