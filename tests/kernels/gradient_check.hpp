#pragma once

#include "tests/kernels/fixtures.hpp"

namespace sluice::kernels::test {

/// Compares a float64 module's gradients with central differences, for parameters and inputs.
///
/// A module without a loss is checked against the sum of its outputs weighted by fixed random
/// numbers. Of large tensors some fifty elements are tried, spread evenly.
class gradient_check {
public:
  gradient_check(stream& on, nn::stage_module& module, nn::micro_batch which, tensor_list inputs)
    : on_(on),
      module_(module),
      which_(which),
      inputs_(std::move(inputs)) {}

  void run() {
    auto save = module_.make_activation();
    const auto outputs = module_.forward(on_, which_, inputs_copy(), save);
    has_loss_ = outputs.front().shape().rank() == 0;
    tensor_list output_gradients;
    if (!has_loss_) {
      weights_ = random_tensor(on_, dtype::float64, outputs.front().shape(), 99);
      output_gradients.push_back(copy(on_, weights_));
    }
    zero_gradients(module_);
    const auto input_gradients =
      module_.backward_input(on_, which_, std::move(output_gradients), save);
    module_.backward_weight(on_, which_, save);
    for (auto& owned : module_.parameters())
      compare(owned.value, owned.gradient, owned.name);
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (i < input_gradients.size() && input_gradients[i])
        compare(inputs_[i], input_gradients[i], "input " + std::to_string(i));
  }

private:
  // Modules may overwrite inputs that they alone hold.
  tensor_list inputs_copy() {
    tensor_list made;
    for (const auto& input : inputs_)
      made.push_back(input ? copy(on_, input) : tensor{});
    return made;
  }

  double objective() {
    auto save = module_.make_activation();
    const auto outputs = module_.forward(on_, which_, inputs_copy(), save);
    if (has_loss_)
      return outputs.front().data<double>()[0] * which_.loss_scale;
    double sum = 0;
    for (std::int64_t i = 0; i < weights_.elements(); ++i)
      sum += element(outputs.front(), i) * element(weights_, i);
    return sum;
  }

  void compare(tensor& at, const tensor& gradient, const std::string& name) {
    REQUIRE(at.shape() == gradient.shape());
    const auto stride = std::max<std::int64_t>(1, at.elements() / 50);
    for (std::int64_t i = 0; i < at.elements(); i += stride) {
      double& x = at.data<double>()[i];
      const double old = x;
      constexpr double h = 1e-5;
      x = old + h;
      const double above = objective();
      x = old - h;
      const double below = objective();
      x = old;
      const double expected = (above - below) / (2 * h);
      const double got = element(gradient, i);
      INFO(name, " element ", i);
      CHECK(std::abs(got - expected) <= 2e-8 + 1e-6 * std::abs(expected));
    }
  }

  stream& on_;
  nn::stage_module& module_;
  nn::micro_batch which_;
  tensor_list inputs_;
  tensor weights_;
  bool has_loss_ = false;
};

} // namespace sluice::kernels::test
