#include "kernels/nn/optimizer.hpp"

#include <array>
#include <stdexcept>

#include <boost/container/small_vector.hpp>

#include "kernels/ops/adamw.hpp"
#include "kernels/ops/sgd.hpp"

namespace sluice::kernels::nn {

namespace {

bool is_share(double value) {
  return value >= 0 && value < 1;
}

class adamw_optimizer final : public optimizer {
public:
  explicit adamw_optimizer(const adamw_options& options) : options_(options) {
    if (!is_share(options.beta1) || !is_share(options.beta2))
      throw std::invalid_argument("adamw: the betas must be in [0, 1)");
    if (!(options.weight_decay >= 0) || !(options.epsilon >= 0))
      throw std::invalid_argument("adamw: weight decay and epsilon must not be negative");
  }

  std::span<const std::string_view> state_names() const noexcept override {
    static constexpr std::array<std::string_view, 2> names{"exp_avg", "exp_avg_sq"};
    return names;
  }

  void step(stream& on, parameter& what, std::span<tensor> state, double learning_rate,
            std::uint64_t step_number, double gradient_scale) const override {
    const stateful_parameter only{&what, state};
    step_all(on, std::span(&only, 1), learning_rate, step_number, gradient_scale);
  }

  void step_all(stream& on, std::span<const stateful_parameter> all, double learning_rate,
                std::uint64_t step_number, double gradient_scale) const override {
    boost::container::small_vector<ops::adamw_operand, 1> operands;
    for (const auto& [what, state] : all) {
      if (state.size() != 2)
        throw std::invalid_argument("adamw: " + what->name + " has no state");
      operands.push_back({what->value, what->gradient, state[0], state[1], what->decays});
    }
    ops::adamw(on, std::span(operands.data(), operands.size()),
               {learning_rate, options_.beta1, options_.beta2, options_.epsilon,
                options_.weight_decay, gradient_scale, step_number});
  }

private:
  adamw_options options_;
};

class sgd_optimizer final : public optimizer {
public:
  explicit sgd_optimizer(const sgd_options& options) : options_(options) {
    if (!is_share(options.momentum) || !(options.weight_decay >= 0))
      throw std::invalid_argument(
        "sgd: the momentum must be in [0, 1) and the weight decay not negative");
  }

  std::span<const std::string_view> state_names() const noexcept override {
    static constexpr std::array<std::string_view, 1> names{"momentum_buffer"};
    return std::span(names).first(options_.momentum != 0 ? 1 : 0);
  }

  void step(stream& on, parameter& what, std::span<tensor> state, double learning_rate,
            std::uint64_t, double gradient_scale) const override {
    if (state.size() != state_names().size())
      throw std::invalid_argument("sgd: " + what.name + " has no state");
    tensor none;
    ops::sgd(
      on, what.value, what.gradient, state.empty() ? none : state[0],
      {learning_rate, options_.momentum, what.decays ? options_.weight_decay : 0, gradient_scale});
  }

private:
  sgd_options options_;
};

} // namespace

std::vector<tensor> optimizer::make_state(stream& on, const parameter& of) const {
  std::vector<tensor> state;
  for (std::size_t i = 0; i < state_names().size(); ++i) {
    state.push_back(on.zeros(of.value.type(), of.value.shape()));
    state.back().set_use(buffer_use::parameter);
  }
  return state;
}

void optimizer::step_all(stream& on, std::span<const stateful_parameter> all, double learning_rate,
                         std::uint64_t step_number, double gradient_scale) const {
  for (const auto& [what, state] : all)
    step(on, *what, state, learning_rate, step_number, gradient_scale);
}

std::unique_ptr<optimizer> make_adamw(const adamw_options& options) {
  return std::make_unique<adamw_optimizer>(options);
}

std::unique_ptr<optimizer> make_sgd(const sgd_options& options) {
  return std::make_unique<sgd_optimizer>(options);
}

} // namespace sluice::kernels::nn
