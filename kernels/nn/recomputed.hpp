#pragma once

#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::nn {

/// A module that keeps only its inputs from forward to backward, and runs the forward again first
/// thing in the backward (activation checkpointing): less memory for about a third more time.
///
/// Everything a forward depends on is in its inputs, the parameters and the micro_batch, dropout
/// included, so the gradients are bit for bit those of the module without it.
/// Source: Chen et al., Training deep nets with sublinear memory cost (2016).
class recomputed final : public stage_module {
public:
  explicit recomputed(module_ptr inner) : inner_(std::move(inner)) {}

  const std::string& name() const override { return inner_->name(); }
  tensor_list forward(stream& on, const micro_batch& which, tensor_list inputs,
                      activation& save) override;
  tensor_list backward_input(stream& on, const micro_batch& which, tensor_list output_gradients,
                             activation& saved) override;
  void backward_weight(stream& on, const micro_batch& which, activation& saved) override;
  parameter_list parameters() override { return inner_->parameters(); }
  void initialise(stream& on, std::uint64_t seed) override { inner_->initialise(on, seed); }
  activation make_activation() const override;

private:
  module_ptr inner_;
};

} // namespace sluice::kernels::nn
