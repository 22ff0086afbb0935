#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::nn {

/// A parameter and what an optimizer remembers of it.
struct stateful_parameter {
  parameter* what = nullptr;
  std::span<tensor> state = {};
};

/// Turns gradients into updates. Knows no parameters: what it remembers of one is a few tensors
/// of the parameter's shape and type, kept beside it and saved under the names that it gives.
class optimizer {
public:
  virtual ~optimizer() = default;

  /// Of the state's tensors, in order: "exp_avg".
  virtual std::span<const std::string_view> state_names() const noexcept = 0;

  /// Zeroed state for a parameter, one tensor per name.
  std::vector<tensor> make_state(stream& on, const parameter& of) const;

  /// Updates the parameter's value. step_number counts from 1; every gradient is multiplied by
  /// gradient_scale first (clipping). Of twins, only the first is given, once their gradients
  /// are added (see tie.hpp).
  virtual void step(stream& on, parameter& what, std::span<tensor> state, double learning_rate,
                    std::uint64_t step_number, double gradient_scale) const = 0;

  /// The same for all parameters of a stage, in their order. One that can do so in fewer calls of
  /// its device does; by default it is step() for each.
  virtual void step_all(stream& on, std::span<const stateful_parameter> all, double learning_rate,
                        std::uint64_t step_number, double gradient_scale) const;
};

struct adamw_options {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1; ///< of parameters that decay
};

struct sgd_options {
  double momentum = 0;
  double weight_decay = 0; ///< of parameters that decay
};

/// State: "exp_avg" and "exp_avg_sq", as PyTorch names them.
/// Errors: std::invalid_argument for betas outside [0, 1), or a negative decay or epsilon.
std::unique_ptr<optimizer> make_adamw(const adamw_options& options = {});

/// State: "momentum_buffer" with momentum, none without.
/// Errors: std::invalid_argument for a momentum outside [0, 1) or a negative decay.
std::unique_ptr<optimizer> make_sgd(const sgd_options& options = {});

} // namespace sluice::kernels::nn
