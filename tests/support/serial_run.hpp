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
class serial_run {
public:
  struct options {
    std::vector<kernels::nn::module_ptr> layers;
    std::shared_ptr<const kernels::nn::optimizer> optimizer;
    std::uint64_t seed = 1;
    double clip = 0;
    double learning_rate = 1e-3;
  };

  explicit serial_run(options of);

  struct result {
    double loss = 0;
    double gradient_norm = 0;
  };
  result step(const actors::batch& data);

  byte_map bytes() const;

private:
  struct held {
    kernels::nn::parameter* lead = nullptr;
    kernels::nn::parameter* twin = nullptr; ///< tied: its gradient is added to the lead's
    std::vector<kernels::tensor> state;
  };

  options options_;
  kernels::stream stream_;
  kernels::nn::module_ptr model_;
  std::map<std::string, held> parameters_;
  std::uint64_t step_ = 0;
};

} // namespace sluice::tests
