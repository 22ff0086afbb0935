#pragma once

/// Optimizers of LibTorch, for the parameters of a stage. This header includes torch's, which take
/// half a minute to compile.
///
///     .optimizer = sluice::kernels::make_torch_optimizer(
///       torch::optim::AdamWOptions().weight_decay(0.01)),

#include <memory>

#include <torch/optim.h>

#include "kernels/nn/optimizer.hpp"

namespace sluice::kernels {

/// Torch's own update, bit for bit that of the optimizer over the same parameters in a plain loop.
///
/// The learning rate is the pipeline's, whatever the options say. A weight decay is every
/// parameter's, as torch has it. What torch remembers of a parameter lies in the stage's memory,
/// under torch's names ("exp_avg"), and so it is in checkpoints.
///
/// On the processor, for any layers, torch's or not.
/// Errors: c10::Error for options that torch refuses.
std::unique_ptr<nn::optimizer> make_torch_optimizer(const torch::optim::SGDOptions& options);
std::unique_ptr<nn::optimizer> make_torch_optimizer(const torch::optim::AdamOptions& options);
std::unique_ptr<nn::optimizer> make_torch_optimizer(const torch::optim::AdamWOptions& options);
std::unique_ptr<nn::optimizer> make_torch_optimizer(const torch::optim::RMSpropOptions& options);
std::unique_ptr<nn::optimizer> make_torch_optimizer(const torch::optim::AdagradOptions& options);

} // namespace sluice::kernels
