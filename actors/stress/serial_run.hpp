#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/batch.hpp"
#include "actors/trainer.hpp"
#include "kernels/nn/optimizer.hpp"
#include "kernels/nn/stage_module.hpp"

namespace sluice::stress {

/// Names to bytes: what two runs are compared by.
using byte_map = std::map<std::string, std::vector<std::byte>>;

/// Every tensor of a state, under "name" and "name/slot".
byte_map bytes_of(const actors::model_state& state);

/// An optimizer that updates as another one does, and keeps the gradient it was given as one more
/// state tensor, so that a fetched state shows the gradients too.
std::shared_ptr<const kernels::nn::optimizer>
keeping_gradients(std::shared_ptr<const kernels::nn::optimizer> inner);

/// What every pipeline must equal bit for bit: the micro-batches one after another through the
/// whole model on one device, by a plain loop. No actors, plans or channels.
///
/// With several routes (DualPipe), the micro-batches of each are summed apart, then added.
/// Where a plan's lanes sum the gradients of some layers in another order than 0, 1, 2 ..., the
/// whole run is repeated in that order, and those layers get their sums from there.
class serial_run {
public:
  struct options {
    std::vector<kernels::nn::module_ptr> layers;
    std::shared_ptr<const kernels::nn::optimizer> optimizer;
    std::uint64_t seed = 1;
    double clip = 0;
    double learning_rate = 1e-3;
    std::vector<std::int32_t> route_of = {}; ///< by micro-batch; empty: one route
    /// The order in which a layer sums micro-batches. Empty: all of them in ascending order.
    std::function<std::vector<std::int32_t>(std::int32_t route, std::size_t layer)> order = {};
  };

  explicit serial_run(options of);

  struct result {
    double loss = 0;
    double gradient_norm = 0;
  };
  result step(const actors::batch& data);

  /// The loss without dropout or update.
  double evaluate(const actors::batch& data);

  /// What the last layer gives, by micro-batch.
  std::vector<kernels::tensor_list> predict(const actors::batch& data);

  byte_map bytes();

private:
  /// One accumulator of a parameter's gradient; a tied parameter has two.
  struct accumulator {
    kernels::nn::parameter* of = nullptr;
    std::size_t layer = 0;
  };

  struct held {
    std::vector<accumulator> accumulators; ///< in the order in which they are added
    std::vector<kernels::tensor> state;
    std::vector<kernels::tensor> parts; ///< gradients: by route, then by accumulator
    std::optional<kernels::nn::parameter> master = {};

    kernels::nn::parameter& lead() const { return *accumulators.front().of; }
    kernels::nn::parameter& updated() { return master ? *master : lead(); }
  };

  using order = std::vector<std::int32_t>;

  /// Runs one micro-batch whole; returns its sum of losses.
  double run(const actors::batch_part& part, const kernels::nn::micro_batch& which);
  void run_route(const actors::batch& data, std::int32_t route, std::vector<double>& losses);
  kernels::tensor_list forward(const actors::batch_part& part,
                               const kernels::nn::micro_batch& which,
                               kernels::nn::activation& save);
  order order_of(const actors::batch& data, std::int32_t route, std::size_t layer) const;
  kernels::nn::micro_batch context(const actors::batch& data, std::size_t micro_batch,
                                   kernels::nn::purpose purpose) const;
  void zero_gradients();

  options options_;
  kernels::stream stream_;
  kernels::nn::module_ptr model_;
  std::size_t layers_ = 0;
  std::map<std::string, held> parameters_;
  std::uint64_t step_ = 0;
};

} // namespace sluice::stress
