#pragma once

/// Modules of LibTorch as layers. This header includes torch's, which take half a minute to
/// compile: include it in the one file that makes the layers.
///
///     auto layers = sluice::kernels::torch_layers("net", my_sequential);
///     layers.push_back(sluice::kernels::make_torch_module("head", my_linear, {.loss = sum_loss}));

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/script.h>
#include <torch/torch.h>

#include "kernels/nn/ports.hpp"
#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels {

using torch_tensors = std::vector<at::Tensor>;

/// How a torch module becomes a layer.
struct torch_settings {
  /// Makes a loss of the module's output and the targets, as a scalar *sum* over the valid ones;
  /// for the layer with the loss. For a prediction the module's output itself is returned.
  std::function<at::Tensor(const at::Tensor& output, const at::Tensor& targets)> loss = {};

  /// What it takes and gives by name (with a loss: also the targets); empty: one tensor each.
  nn::module_ports ports = {};

  /// Whether the backward is in two halves. That is free for a module of one operation; of a larger
  /// one the second half would repeat the first, so there the backward stays whole by default.
  enum class backward : std::uint8_t { by_size, whole, split };
  backward halves = backward::by_size;
};

/// Any module, with what calls its forward; more inputs and outputs than one go by ports.
///
/// Parameters are named NAME.KEY, as torch calls them; their first values are torch's own (so call
/// torch::manual_seed first in pipeline_options::layers), and from set-up on they live in the
/// stage's memory, where Sluice's optimizer updates them. Buffers stay torch's: they have no
/// gradient, and are in no checkpoint. Integer and bool inputs have no gradient.
///
/// Inputs, parameters and gradients are torch views of the stage's memory; outputs and the
/// gradients of inputs are passed on in torch's memory, without a copy. A module that changes its
/// input in place is refused. What torch's autograd keeps between forward and backward is torch's
/// memory: no report counts it. Modules that draw from torch's generator (dropout) do so in the
/// order of execution, and so differ from run to run.
nn::module_ptr make_torch_module(std::string name, std::shared_ptr<torch::nn::Module> module,
                                 std::function<torch_tensors(const torch_tensors&)> forward,
                                 torch_settings settings = {});

/// A module with a forward(Tensor), held as TORCH_MODULE's holders do.
template <class Holder>
nn::module_ptr make_torch_module(std::string name, Holder module, torch_settings settings = {}) {
  return make_torch_module(
    std::move(name), module.ptr(),
    [module](const torch_tensors& inputs) mutable {
      return torch_tensors{module->forward(inputs.at(0))};
    },
    std::move(settings));
}

/// A scripted module, as torch::jit::load() gives it, with all that is said above. Its forward
/// takes the tensors in order, None for absent ones, and gives a tensor or a tuple of them. Its
/// backward is in halves only where it has no modules within, or `halves` says so.
nn::module_ptr make_scripted_module(std::string name, torch::jit::Module module,
                                    torch_settings settings = {});

/// The modules of a Sequential, a layer each, so that it can be cut between any two of them by
/// their measured cost (pipeline_options::layer_costs). The last gets the settings. Those of one
/// chunk that follow each other are run as one, under one graph of autograd, unless the plan splits
/// their backward.
/// Errors: std::invalid_argument for two modules with one parameter.
std::vector<nn::module_ptr> torch_layers(const std::string& name, torch::nn::Sequential modules,
                                         torch_settings of_last = {});

/// Lets glibc keep up to so much freed memory instead of giving it back to the system; nothing
/// elsewhere. Torch allocates and frees every tensor, and on a stage's thread glibc returns and
/// fetches their pages again in each step. It holds for the whole process: call it early in main().
void keep_freed_memory(std::size_t bytes = std::size_t{256} << 20);

} // namespace sluice::kernels
