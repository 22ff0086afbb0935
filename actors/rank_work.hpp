#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages.hpp"
#include "actors/plan/plan.hpp"
#include "kernels/nn/optimizer.hpp"
#include "kernels/nn/stage_module.hpp"
#include "kernels/stream.hpp"

namespace sluice::actors {

/// A chunk that a rank hosts.
struct hosted_chunk {
  std::int32_t chunk = 0;
  std::int32_t route = 0;
  kernels::nn::module_ptr module;
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
};

/// The order in which gradients of one name are added: by route, then as the model says.
std::int32_t ordinal_of(const hosted_chunk& chunk, const kernels::nn::parameter& of);

/// What a rank computes: its chunks, their parameters, and the activations in flight. Knows
/// neither messages nor peers.
///
/// Thread: the stage's. Errors: exceptions of the modules.
class rank_work {
public:
  rank_work(std::int32_t rank, kernels::stream on, std::vector<hosted_chunk> chunks,
            std::vector<shared_parameter> shared,
            std::shared_ptr<const kernels::nn::optimizer> update);
  ~rank_work();

  /// Builds parameters and optimizer state.
  void set_up(std::uint64_t seed);

  /// Zeroes the gradients (of a training step) and the statistics, gets ready for the step.
  void begin(const begin_step& step, const plan::plan& of, std::uint64_t seed);

  /// Inputs, then targets if any. Returns what the next chunk gets; nothing after a loss.
  kernels::tensor_list forward(const plan::lane_entry& which, kernels::tensor_list inputs);

  /// The gradient of the inputs. Takes none for a chunk that ends in a loss.
  kernels::tensor_list backward(const plan::lane_entry& which, kernels::tensor_list gradients);

  /// The gradient of the weights; frees the activation.
  void weight(const plan::lane_entry& which);

  /// Gradients of shared parameters that other ranks need: (shared index, ordinal, gradient).
  struct twin {
    std::int32_t parameter = 0; ///< index into the shared parameters
    std::int32_t ordinal = 0;
    kernels::tensor gradient;
  };
  std::vector<twin> own_twins();

  /// How many gradients of shared parameters come from other ranks in a step.
  std::size_t foreign_twins() const noexcept { return foreign_twins_; }

  /// Adds up the gradients of shared parameters, own and received, in the order of ordinals.
  void combine(std::vector<twin> received);

  /// One sum for each parameter that this rank is the first holder of.
  std::vector<gradient_square> squares();

  void update(std::uint64_t step, double learning_rate, double gradient_scale);

  /// Ends a step. After the first training step, takes from the device what the plan's credits
  /// allow and that step happened not to need, so that no later one allocates.
  void end();

  /// Drops the activations of a step that failed.
  void abandon() noexcept;

  const std::vector<micro_batch_loss>& losses() const noexcept { return losses_; }
  stage_memory memory() const;

  /// The names of the parameters that this rank is the first holder of, and their tensors: the
  /// value, then the optimizer's state.
  std::vector<std::string> owned_names() const;
  std::vector<std::string> optimizer_slots() const;
  kernels::tensor_list state_of(const std::string& name) const;
  /// Errors: std::invalid_argument for other shapes, types or counts.
  void install(const std::string& name, const kernels::tensor_list& state);

  kernels::stream& stream() noexcept { return stream_; }

private:
  struct in_flight;
  struct chunk_state;
  struct held_parameter;

  chunk_state& chunk(std::int32_t id);
  const held_parameter& named(const std::string& name) const;
  kernels::nn::micro_batch context(std::int32_t micro_batch) const;
  template <class Function>
  void noting_demand(chunk_state& of, plan::task_kind kind, Function task);
  void release(in_flight& slot) noexcept;

  std::int32_t rank_;
  kernels::stream stream_;
  std::vector<std::unique_ptr<chunk_state>> chunks_;
  std::vector<shared_parameter> shared_;
  std::vector<held_parameter> parameters_; ///< one for each name, in the order of the chunks
  std::shared_ptr<const kernels::nn::optimizer> optimizer_;

  kernels::nn::micro_batch step_;
  std::vector<std::int64_t> first_samples_;
  std::vector<micro_batch_loss> losses_;
  const plan::plan* plan_ = nullptr; ///< of the step under way
  bool reserved_ = false;
  std::size_t foreign_twins_ = 0;
  std::int32_t held_ = 0;
  std::int32_t peak_held_ = 0;
};

} // namespace sluice::actors
