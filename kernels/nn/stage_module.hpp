#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "kernels/stream.hpp"
#include "kernels/tensor.hpp"

namespace sluice::kernels::nn {

/// What a forward is for.
enum class purpose : std::uint8_t {
  train,    ///< dropout on, saves for backward, the last module gives the loss
  evaluate, ///< dropout off, saves nothing, the last module gives the loss
  predict,  ///< dropout off, saves nothing, the last module gives its prediction
};

/// What a module may know about the micro-batch it works on. Nothing here depends on where or
/// when the module runs, so neither do its results.
struct micro_batch {
  nn::purpose purpose = nn::purpose::train;
  std::uint64_t seed = 0;        ///< of the whole run
  std::uint64_t step = 0;        ///< counts optimizer steps from 0
  std::int64_t first_sample = 0; ///< index, within the step's whole batch, of its first sample
  double loss_scale = 1.0;       ///< 1 / (valid targets of the whole batch); applied in backward
  bool saves = true;             ///< off in a training forward that will be run again
  bool split = true;             ///< of a backward: off where W follows B at once
};

/// One trainable tensor of a module.
struct parameter {
  std::string name;  ///< unique in the model, "h.0.mlp.c_fc.weight"; a tied weight's twice
  tensor value = {}; ///< shared with its tied twin where both are on one device
  /// Same shape; summed over the micro-batches of a step, in float32 also where the value is
  /// bfloat16: what one micro-batch adds to the sum of the others would be rounded away.
  tensor gradient = {};
  bool decays = false; ///< whether weight decay applies (matrices yes, biases and norms no)
  int accumulator = 0; ///< tied weights: the order in which the twins' gradients are added
};

/// The parameters of a module, wherever they lie: a range of `parameter&` with size() and [].
struct follow_parameter {
  parameter& operator()(parameter* which) const noexcept { return *which; }
};
using parameter_list = std::ranges::transform_view<std::span<parameter* const>, follow_parameter>;

/// What a forward saves for its backward: one per micro-batch in flight, reused.
struct activation {
  tensor_list saved;
  std::vector<activation> parts; ///< of a module made of modules, in their order
  std::shared_ptr<void> foreign; ///< what another library keeps: a graph of its autograd
};

struct module_ports;

/// A piece of a model that one chunk runs, or a single layer of it.
///
/// The backward is split: backward_input (B) and backward_weight (W) are two calls, W at any time
/// after B of the same micro-batch. Together they are the whole backward, bit for bit.
///
/// Micro-batches arrive in one order at forward and in one order at backward; forwards of later
/// ones come between a forward and its backward, so all state of a micro-batch is in `activation`.
///
/// Tensors that a module does not know, behind those it takes, pass through unchanged and without
/// gradient: so the targets reach the loss of a chunk that begins with the embedding. An input or
/// an output gradient may be overwritten or passed on only by who holds its one handle
/// (tensor::unique()); otherwise another module, or a recomputation, still needs it.
///
/// Thread: one at a time. Errors: exceptions; the stage adds rank, chunk, micro-batch, operation.
class stage_module {
public:
  virtual ~stage_module() = default;

  /// As errors and reports show it: "h.0.attn".
  virtual const std::string& name() const = 0;

  /// Maps the inputs to the outputs. The list and its shapes are the module's interface; see its
  /// own header. A module that has a loss returns, for train and evaluate, a float64 scalar first:
  /// the sum (not the mean) of the losses of all valid targets.
  virtual tensor_list forward(stream& on, const micro_batch& which, tensor_list inputs,
                              activation& save) = 0;

  /// B: takes the gradient of each output (absent where there is none, none at all after a loss)
  /// and returns one for each input, absent for those without. Keeps in `saved` what W needs and
  /// drops the rest.
  virtual tensor_list backward_input(stream& on, const micro_batch& which,
                                     tensor_list output_gradients, activation& saved) = 0;

  /// W: adds to the gradients of the parameters and drops what is left in `saved`.
  virtual void backward_weight(stream& on, const micro_batch& which, activation& saved) = 0;

  /// In a fixed order; stays valid for the module's life.
  virtual parameter_list parameters() = 0;

  /// Allocates and initialises parameter values and zeroed gradients on the stream's device.
  /// Each value depends on (seed, parameter name) alone.
  virtual void initialise(stream& on, std::uint64_t seed) = 0;

  /// What it takes and gives by name (ports.hpp), or null: one tensor in, one tensor out.
  /// Stays valid for the module's life.
  virtual const module_ports* ports() const { return nullptr; }

  /// Called before the first forward where nobody wants the gradient of an input (by its index): no
  /// parameter lies behind it. backward_input() may then return none for it. Only where layers have
  /// ports is it known.
  virtual void skip_input_gradient(std::size_t /*input*/) {}

  /// Takes over the work of the layer that follows it at once in its chunk, and is both from then
  /// on; or returns false, with `next` as it was. For modules of another library, which then keeps
  /// one graph for all of them. Called only before anything else is, and only where W follows B at
  /// once: a joined module could not be split without doing its backward twice.
  virtual bool absorb(std::unique_ptr<stage_module>& /*next*/) { return false; }

  /// How many parts an activation of this module has, at each level.
  virtual activation make_activation() const { return {}; }
};

using module_ptr = std::unique_ptr<stage_module>;

} // namespace sluice::kernels::nn
