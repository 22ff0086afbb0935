#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "actors/pipeline.hpp"
#include "kernels/nn/optimizer.hpp"
#include "kernels/nn/stage_module.hpp"
#include "kernels/stream.hpp"

namespace sluice::bench {

/// A network and a batch to measure with. By default what `sluice train` has: a byte-level GPT.
struct gpt_case {
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t length = 128;
  std::int64_t samples = 4; ///< of a micro-batch
  std::int32_t micro_batches = 8;

  std::int64_t tokens() const { return samples * length * micro_batches; }
};

/// Whose tasks take next to no time: what is left is what Sluice adds.
inline constexpr gpt_case tiny_gpt{
  .layers = 4, .width = 8, .heads = 1, .length = 4, .samples = 1, .micro_batches = 16};

std::vector<kernels::nn::module_ptr> make_layers(const gpt_case& of);

/// Random bytes, the same each time.
actors::batch make_batch(const gpt_case& of);

/// One thread a stage, AdamW, clipping.
actors::pipeline make_pipeline(const gpt_case& of, std::string_view schedule, std::int32_t stages);

/// The same layers, micro-batches and update in a loop that a person would write: no actors, no
/// messages, no copy of the batch, one thread.
class plain_loop {
public:
  explicit plain_loop(const gpt_case& of);

  /// Returns the loss.
  double step(const actors::batch& data);

private:
  kernels::stream on_;
  std::vector<kernels::nn::module_ptr> layers_;
  std::vector<kernels::nn::activation> saved_;
  std::vector<kernels::nn::parameter*> all_;   ///< a tied one twice
  std::vector<kernels::nn::parameter*> leads_; ///< each once
  std::vector<std::vector<kernels::tensor>> states_;
  std::unique_ptr<kernels::nn::optimizer> optimizer_;
  std::uint64_t steps_ = 0;
};

} // namespace sluice::bench
