#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/messages.hpp"
#include "actors/parameter_set.hpp"
#include "actors/plan/plan.hpp"
#include "kernels/nn/stage_module.hpp"
#include "kernels/stream.hpp"

namespace sluice::actors {

/// What a rank computes: its chunks, their parameters, and the activations in flight. Knows
/// neither messages nor peers.
///
/// Thread: the stage's. Errors: exceptions of the modules.
class rank_work {
public:
  rank_work(std::int32_t rank, kernels::stream on, std::vector<hosted_chunk> chunks,
            parameter_set parameters);
  ~rank_work();

  /// Builds parameters and optimizer state.
  void set_up(std::uint64_t seed);

  /// Zeroes the gradients (of a training step) and the statistics, gets ready for the step.
  void begin(const begin_step& step, const plan::plan& of, std::uint64_t seed);

  /// Around a task, from before its inputs are taken: the first of each kind and chunk shows what
  /// such tasks need of the pool.
  void begin_task();
  void end_task(const plan::task& which, const kernels::tensor_list& results);

  /// Inputs, then targets if any. Returns what the next chunk gets; nothing after a loss.
  kernels::tensor_list forward(const plan::lane_entry& which, kernels::tensor_list inputs);

  /// The gradient of the inputs. Takes none for a chunk that ends in a loss.
  kernels::tensor_list backward(const plan::lane_entry& which, kernels::tensor_list gradients);

  /// The gradient of the weights; frees the activation.
  void weight(const plan::lane_entry& which);

  /// Updates a chunk's weights within the step: asynchronous plans only.
  void update(const plan::lane_entry& which);

  /// parameter_set::own_twins(), with what it needs of the pool noted.
  std::vector<parameter_set::twin> own_twins();

  /// Ends a step. After the first training step, takes from the device what the plan's credits
  /// allow and that step happened not to need, so that no later one allocates.
  void end();

  /// Drops the activations of a step that failed.
  void abandon() noexcept;

  /// Of the micro-batches so far. Fetches what lies on the device, so it waits for that.
  const std::vector<micro_batch_loss>& losses();
  stage_memory memory();

  parameter_set& parameters() noexcept { return parameters_; }
  kernels::stream& stream() noexcept { return stream_; }

private:
  struct in_flight;
  struct chunk_state;

  chunk_state& chunk(std::int32_t id);
  kernels::nn::micro_batch context(std::int32_t micro_batch) const;
  void release(in_flight& slot) noexcept;
  void forget_versions(chunk_state& of);

  std::int32_t rank_;
  kernels::stream stream_;
  std::vector<std::unique_ptr<chunk_state>> chunks_;
  parameter_set parameters_;

  kernels::nn::micro_batch context_; ///< what all micro-batches of the step share
  begin_step step_;
  std::vector<micro_batch_loss> losses_;
  struct computed_loss {
    std::int32_t micro_batch = 0;
    std::int32_t which = 0; ///< of the model's losses
    kernels::tensor value = {};
  };
  std::vector<computed_loss> computed_losses_; ///< not fetched yet
  const plan::plan* plan_ = nullptr;           ///< of the step under way
  bool reserved_ = false;
  kernels::buffer_pool::task_demand twin_demand_;
  kernels::buffer_pool::task_demand result_demand_; ///< of what a task gives to another rank
  std::int32_t held_ = 0;
  std::int32_t peak_held_ = 0;
};

} // namespace sluice::actors
