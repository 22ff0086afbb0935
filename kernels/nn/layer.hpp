#pragma once

#include <string>
#include <vector>

#include "kernels/nn/init.hpp"
#include "kernels/nn/stage_module.hpp"
#include "kernels/ops/dropout.hpp"

namespace sluice::kernels::nn {

/// A parameter before it has a value.
struct parameter_description {
  std::string name;
  kernels::shape shape;
  initial_value initial;
  bool decays = false;
  int accumulator = 0;
};

/// What the layers here have in common: a name, and parameters known when it is made.
class layer : public stage_module {
public:
  const std::string& name() const final { return name_; }
  parameter_list parameters() final { return {pointers_, {}}; }
  void initialise(stream& on, std::uint64_t seed) final;

  layer(const layer&) = delete;
  layer& operator=(const layer&) = delete;

protected:
  layer(std::string name, dtype type, std::vector<parameter_description> parameters = {});

  dtype type() const noexcept { return type_; }
  tensor& value(std::size_t which) noexcept { return parameters_[which].value; }
  tensor& gradient(std::size_t which) noexcept { return parameters_[which].gradient; }

  /// The mask of one of this layer's dropouts: off unless training.
  ops::dropout_mask mask(const micro_batch& which, double probability,
                         std::uint32_t operation) const noexcept;

private:
  std::string name_;
  dtype type_;
  std::uint64_t hash_;
  std::vector<parameter_description> descriptions_;
  std::vector<parameter> parameters_;
  std::vector<parameter*> pointers_;
};

/// A layer that maps one tensor to one; further inputs pass through, without gradient.
class unary_layer : public layer {
public:
  tensor_list forward(stream& on, const micro_batch& which, tensor_list inputs,
                      activation& save) final;
  tensor_list backward_input(stream& on, const micro_batch& which, tensor_list output_gradients,
                             activation& saved) final;

protected:
  using layer::layer;

  /// Saves for backward only when saves(which).
  virtual tensor map(stream& on, const micro_batch& which, tensor input, activation& save) = 0;
  virtual tensor pull_back(stream& on, const micro_batch& which, tensor output_gradient,
                           activation& saved) = 0;
};

inline bool trains(const micro_batch& which) noexcept {
  return which.purpose == purpose::train;
}

/// Whether a forward saves for a backward.
inline bool saves(const micro_batch& which) noexcept {
  return trains(which) && which.saves;
}

/// Saves a tensor and accounts for it as an activation.
void keep(activation& save, tensor what);

} // namespace sluice::kernels::nn
