#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/batch.hpp"
#include "cli/text_data.hpp"
#include "cli/train_options.hpp"
#include "kernels/nn/profile.hpp"
#include "kernels/nn/stage_module.hpp"
#include "kernels/nn/lr_schedule.hpp"
#include "kernels/stream.hpp"

namespace sluice::cli {

/// The layers of a recipe's network. Errors: usage_error.
std::vector<kernels::nn::module_ptr> make_layers(const recipe& what);

/// The same as data, for stages in whatever process.
actors::model_recipe model_of(const recipe& what);
actors::optimizer_recipe update_of(const recipe& what);

/// Bytes of weights, masters, gradients and the optimizer's state, for each byte of weights that
/// the layers compute with.
double state_factor(const recipe& what);

kernels::nn::lr_schedule make_lr_schedule(const recipe& what);

/// Turns text into what the network takes: a GPT gets ids and the ids that follow, an MLP the
/// values of `length` bytes and the byte after them.
class batch_maker {
public:
  explicit batch_maker(const recipe& what);

  /// Cuts a batch of whole sequences into micro-batches of at most `micro_batch_size`.
  actors::batch make(const token_batch& from, std::int64_t micro_batch_size);

  /// A micro-batch of zeros, as large as the real ones, for measurements.
  actors::batch_part blank(std::int64_t micro_batch_size);

  /// A batch of one sequence without targets. The text is cut or padded at its end to `length`.
  actors::batch prompt(std::string_view text);

private:
  actors::batch_part part(const token_batch& from, std::size_t first, std::size_t count);
  token_batch zeros(std::size_t samples) const;

  bool gpt_;
  std::int64_t length_;
  kernels::buffer_pool pool_{kernels::make_cpu_device()};
};

/// What each layer costs on a device for one micro-batch.
std::vector<kernels::nn::layer_cost>
profile_model(const recipe& what, std::shared_ptr<kernels::device> on, int threads);

/// Seconds of each layer's forward and whole backward of one micro-batch, for the cut into stages.
std::vector<double> measure_layers(const recipe& what, int threads);

} // namespace sluice::cli
