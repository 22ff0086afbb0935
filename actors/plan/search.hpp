#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "actors/plan/partition.hpp"
#include "actors/plan/plan.hpp"
#include "actors/plan/simulate.hpp"

namespace sluice::plan {

/// What a layer costs for one micro-batch on a device of speed 1. Units: time as the caller likes;
/// bytes.
struct layer_costs {
  std::string name = {};
  double forward = 0;
  double backward = 0;
  double weight = 0;
  double activation_bytes = 0; ///< kept from F to the end of the backward
  double output_bytes = 0;     ///< what crosses a cut behind it
  double parameter_bytes = 0;
};

struct device_kind {
  double speed = 1; ///< relative to the device that was measured
  double memory_bytes = std::numeric_limits<double>::infinity();
};

struct search_request {
  std::vector<layer_costs> layers = {};
  std::vector<device_kind> devices =
    {};                   ///< in pipeline order; a plan for P ranks takes the first P
  std::int32_t batch = 8; ///< micro-batches of the measured size in a step
  bool may_merge = true;  ///< whether a plan's micro-batch may hold several measured ones
  link between = {};
  double state_factor = 4; ///< bytes of weights, gradients and optimizer, by parameter byte
  std::vector<std::string> schedules = {}; ///< to try; empty: all synchronous ones
  std::int32_t stages = 0;                 ///< P; 0: any
  std::int32_t most_chunks = 4;            ///< V, where a schedule leaves it free
};

/// A plan for given layers and devices.
struct proposal {
  plan made = {};
  std::vector<layer_range> parts = {}; ///< layers of each
  std::vector<bool> recomputes = {};   ///< by rank: keeps inputs only and runs F again before B
  std::int32_t merged = 1;             ///< measured micro-batches in one of the plan
  double step = 0;                     ///< simulated time of a step, optimizer not counted
  std::vector<double> peak_bytes = {}; ///< by rank: states and activations, at most
  double memory_times = 1; ///< by how much the memories would have to grow; 1 or less: it fits

  /// "zb-h1 on 4 ranks, 16 micro-batches", with what is out of the ordinary.
  std::string text() const;
};

struct search_result {
  std::vector<proposal> fitting = {};   ///< the best of each schedule that fits, fastest first
  std::vector<proposal> with_more = {}; ///< faster ones that more memory would buy, least first
  std::int64_t tried = 0;
};

/// The plan with the shortest step: schedule, P, V, M, cut, recomputation per rank, and for the
/// best of them warm-up levels and cuts in a small neighbourhood. Every candidate is simulated,
/// unless the busiest rank's work alone takes longer than the best so far.
///
/// A rank recomputes only if it would not fit otherwise, and only with whole backwards: between B
/// and W it would hold what it spared. A micro-batch that holds k measured ones
/// takes k times as long and as many bytes: gains of larger products are not foreseen.
///
/// Errors: plan_error for no layers or no devices.
/// Cost: a simulation for each candidate; seconds for tens of layers and ranks.
search_result search(const search_request& wanted);

/// How a plan runs with given layers, cut into its parts evenly for its devices.
proposal propose(plan made, const search_request& wanted, std::int32_t merged = 1);

/// The conditions in which propose() simulates.
conditions conditions_of(const proposal& of, const search_request& wanted);

} // namespace sluice::plan
