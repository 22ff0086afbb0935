#include "kernels/torch/torch_optimizer.hpp"

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/torch/torch_tensor.hpp"

namespace sluice::kernels {

namespace {

/// One tensor that a torch optimizer remembers of a parameter.
template <class State>
struct memory {
  std::string_view name;
  at::Tensor& (State::*of)() noexcept;
};

/// Its tensors lie in the stage's memory: each step lends them to a torch optimizer made for it.
template <class Torch, class Options, class State>
class torch_optimizer final : public nn::optimizer {
public:
  torch_optimizer(Options options, std::vector<memory<State>> memories)
    : options_(std::move(options)),
      memories_(std::move(memories)) {
    for (const auto& each : memories_)
      names_.push_back(each.name);
    Torch({at::zeros({1})}, options_); // What torch refuses, it refuses now.
  }

  std::span<const std::string_view> state_names() const noexcept override { return names_; }

  void step(stream& on, nn::parameter& what, std::span<tensor> state, double learning_rate,
            std::uint64_t step_number, double gradient_scale) const override {
    const nn::stateful_parameter one{&what, state};
    step_all(on, {&one, 1}, learning_rate, step_number, gradient_scale);
  }

  void step_all(stream& on, std::span<const nn::stateful_parameter> all, double learning_rate,
                std::uint64_t step_number, double gradient_scale) const override {
    if (!on.where().is_host())
      throw std::invalid_argument("LibTorch's optimizers run on the processor, not on "
                                  + on.where().name());
    if (all.empty())
      return;
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> values;
    for (const auto& each : all) {
      values.push_back(view(each.what->value));
      const auto gradient = view(each.what->gradient);
      values.back().mutable_grad() = gradient_scale == 1 ? gradient : gradient * gradient_scale;
    }
    auto options = options_;
    options.lr(learning_rate);
    Torch updates(values, options);
    // In its first step torch makes what it remembers, in its own way.
    const bool remembers = step_number > 1;
    for (std::size_t i = 0; remembers && i < all.size(); ++i)
      updates.state()[values[i].unsafeGetTensorImpl()] = lend(all[i].state, step_number - 1);
    updates.step();
    for (std::size_t i = 0; !remembers && i < all.size(); ++i)
      keep(updates, values[i], all[i].state);
  }

private:
  std::unique_ptr<State> lend(std::span<tensor> state, std::uint64_t steps) const {
    auto lent = std::make_unique<State>();
    if constexpr (requires { lent->step(std::int64_t{}); })
      lent->step(static_cast<std::int64_t>(steps));
    for (std::size_t i = 0; i < memories_.size(); ++i)
      (lent.get()->*memories_[i].of)() = view(state[i]);
    return lent;
  }

  void keep(Torch& updates, const at::Tensor& of, std::span<tensor> state) const {
    if (memories_.empty())
      return;
    auto& made = static_cast<State&>(*updates.state().at(of.unsafeGetTensorImpl()));
    for (std::size_t i = 0; i < memories_.size(); ++i)
      view(state[i]).copy_((made.*memories_[i].of)());
  }

  Options options_;
  std::vector<memory<State>> memories_;
  std::vector<std::string_view> names_;
};

/// Of the options' memories, those that are used.
template <class Torch, class State, class Options>
std::unique_ptr<nn::optimizer> make(const Options& options,
                                    std::vector<std::pair<bool, memory<State>>> wanted) {
  std::vector<memory<State>> used;
  for (const auto& [is_used, which] : wanted)
    if (is_used)
      used.push_back(which);
  return std::make_unique<torch_optimizer<Torch, Options, State>>(options, std::move(used));
}

} // namespace

std::unique_ptr<nn::optimizer> make_torch_optimizer(const torch::optim::SGDOptions& options) {
  using state = torch::optim::SGDParamState;
  return make<torch::optim::SGD, state>(
    options, {{options.momentum() != 0, {"momentum_buffer", &state::momentum_buffer}}});
}

std::unique_ptr<nn::optimizer> make_torch_optimizer(const torch::optim::AdamOptions& options) {
  using state = torch::optim::AdamParamState;
  return make<torch::optim::Adam, state>(
    options, {{true, {"exp_avg", &state::exp_avg}},
              {true, {"exp_avg_sq", &state::exp_avg_sq}},
              {options.amsgrad(), {"max_exp_avg_sq", &state::max_exp_avg_sq}}});
}

std::unique_ptr<nn::optimizer> make_torch_optimizer(const torch::optim::AdamWOptions& options) {
  using state = torch::optim::AdamWParamState;
  return make<torch::optim::AdamW, state>(
    options, {{true, {"exp_avg", &state::exp_avg}},
              {true, {"exp_avg_sq", &state::exp_avg_sq}},
              {options.amsgrad(), {"max_exp_avg_sq", &state::max_exp_avg_sq}}});
}

std::unique_ptr<nn::optimizer> make_torch_optimizer(const torch::optim::RMSpropOptions& options) {
  using state = torch::optim::RMSpropParamState;
  return make<torch::optim::RMSprop, state>(
    options, {{true, {"square_avg", &state::square_avg}},
              {options.momentum() > 0, {"momentum_buffer", &state::momentum_buffer}},
              {options.centered(), {"grad_avg", &state::grad_avg}}});
}

std::unique_ptr<nn::optimizer> make_torch_optimizer(const torch::optim::AdagradOptions& options) {
  using state = torch::optim::AdagradParamState;
  return make<torch::optim::Adagrad, state>(options, {{true, {"sum", &state::sum}}});
}

} // namespace sluice::kernels
