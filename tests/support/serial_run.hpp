#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/batch.hpp"
#include "actors/trainer.hpp"
#include "kernels/nn/optimizer.hpp"
#include "kernels/nn/stage_module.hpp"

namespace sluice::tests {

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
class serial_run {
public:
  struct options {
    std::vector<kernels::nn::module_ptr> layers;
    std::shared_ptr<const kernels::nn::optimizer> optimizer;
    std::uint64_t seed = 1;
    double clip = 0;
    double learning_rate = 1e-3;
    std::vector<std::int32_t> route_of = {}; ///< by micro-batch; empty: one route
  };

  explicit serial_run(options of);

  struct result {
    double loss = 0;
    double gradient_norm = 0;
  };
  result step(const actors::batch& data);

  byte_map bytes() const;

private:
  /// Runs one micro-batch whole; returns its sum of losses.
  double run(const actors::batch_part& part, const kernels::nn::micro_batch& which);
  void zero_gradients();

  struct held {
    kernels::nn::parameter* lead = nullptr;
    kernels::nn::parameter* twin = nullptr; ///< tied: its gradient is added to the lead's
    std::vector<kernels::tensor> state;
    std::vector<kernels::tensor> parts; ///< gradients in the order in which they are added
  };

  options options_;
  kernels::stream stream_;
  kernels::nn::module_ptr model_;
  std::map<std::string, held> parameters_;
  std::uint64_t step_ = 0;
};

} // namespace sluice::tests
