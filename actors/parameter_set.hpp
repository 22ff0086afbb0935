#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages.hpp"
#include "kernels/nn/optimizer.hpp"
#include "kernels/nn/stage_module.hpp"
#include "kernels/stream.hpp"

namespace sluice::actors {

/// A chunk that a rank hosts.
struct hosted_chunk {
  std::int32_t chunk = 0;
  std::int32_t route = 0;
  kernels::nn::module_ptr module;
  std::int32_t losses = 0;     ///< how many its forward gives, ahead of its other outputs
  std::int32_t first_loss = 0; ///< of the model's, numbered from the input
};

/// One of the places that hold a parameter. Parameters with one name in several places (tied
/// weights, the two directions of DualPipe) are one parameter: their gradients are added in the
/// order of the ordinals, and every holder makes the same update.
struct parameter_holder {
  std::int32_t rank = 0;
  std::int32_t ordinal = 0;
};

/// A parameter that has more than one holder.
struct shared_parameter {
  std::string name;
  std::vector<parameter_holder> holders; ///< by ordinal; the first one reports and checkpoints

  /// The ranks that hold it, each once, without `rank`.
  std::vector<std::int32_t> other_ranks(std::int32_t rank) const;
};

/// The order in which gradients of one name are added: by route, then as the model says.
std::int32_t ordinal_of(const hosted_chunk& chunk, const kernels::nn::parameter& of);

/// The parameters of a rank's chunks, each name once, with gradients and optimizer state.
/// Thread: the stage's.
class parameter_set {
public:
  parameter_set(std::int32_t rank, std::vector<shared_parameter> shared,
                std::shared_ptr<const kernels::nn::optimizer> update);

  /// Takes in the parameters of an initialised module; those whose name is here already share the
  /// value of the first from now on.
  void add(const hosted_chunk& chunk);

  /// Makes the optimizer's state; call it after the last add().
  void complete(kernels::stream& on);

  void zero_gradients();

  /// A gradient of a shared parameter that other ranks need.
  struct twin {
    std::int32_t parameter = 0; ///< index into the shared parameters
    std::int32_t ordinal = 0;
    kernels::tensor gradient;
  };
  std::vector<twin> own_twins(kernels::stream& on) const;

  /// How many come from other ranks in a step.
  std::size_t foreign_twins() const noexcept { return foreign_twins_; }

  /// Adds up the gradients of shared parameters, own and received, in the order of ordinals.
  void combine(kernels::stream& on, std::vector<twin> received);

  /// The sum of squares of the gradient of each parameter that this rank is the first holder of.
  std::vector<gradient_square> squares(kernels::stream& on) const;

  /// Each parameter once, where its whole gradient is after combine().
  std::vector<kernels::nn::parameter*> leads() const;

  void update(kernels::stream& on, const apply& with);

  /// The update of an asynchronous plan: of one chunk, within a step; its gradients start anew.
  /// None of its parameters may have a holder elsewhere.
  void update_chunk(kernels::stream& on, std::int32_t chunk, const apply& with);

  /// The values of a chunk's parameters; another version of them.
  std::vector<kernels::tensor> values(std::int32_t chunk) const;
  void set_values(std::int32_t chunk, const std::vector<kernels::tensor>& values);

  /// The names of the parameters that this rank is the first holder of.
  std::vector<std::string> owned_names() const;
  std::vector<std::string> optimizer_slots() const;

  /// The value (a bfloat16 parameter's float32 master), then the optimizer's state. Errors:
  /// std::invalid_argument for a name not here.
  kernels::tensor_list state_of(const std::string& name) const;

  /// Errors: std::invalid_argument for other names, shapes, types or counts than state_of() gives.
  void install(kernels::stream& on, const std::string& name, const kernels::tensor_list& state);

private:
  struct entry;
  void combine(kernels::stream& on, entry& of, std::vector<twin>& received);

  /// Updates the entries for which wanted(entry) holds, in one call of the optimizer.
  template <class Wanted>
  void update_those(kernels::stream& on, const apply& with, Wanted wanted);

  struct entry {
    std::string name;
    std::vector<std::pair<std::int32_t, kernels::nn::parameter*>> accumulators; ///< by ordinal
    std::int32_t chunk = 0;                            ///< the first here that holds it
    std::int32_t shared = -1;                          ///< index into the shared parameters, or -1
    bool owner = true;                                 ///< this rank is the first holder
    std::vector<kernels::tensor> state = {};           ///< of the optimizer
    std::optional<kernels::nn::parameter> master = {}; ///< of a bfloat16 parameter

    kernels::nn::parameter& lead() const { return *accumulators.front().second; }
    /// What the optimizer updates and a checkpoint holds.
    kernels::nn::parameter& updated() { return master ? *master : lead(); }
    const kernels::tensor& kept() const { return master ? master->value : lead().value; }
  };

  std::int32_t rank_;
  std::vector<shared_parameter> shared_;
  std::shared_ptr<const kernels::nn::optimizer> optimizer_;
  std::vector<entry> entries_;
  std::size_t foreign_twins_ = 0;
};

} // namespace sluice::actors
