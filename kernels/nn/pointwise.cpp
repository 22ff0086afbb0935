#include "kernels/nn/pointwise.hpp"

#include <stdexcept>

#include "kernels/ops/gelu.hpp"

namespace sluice::kernels::nn {

namespace {

class gelu_layer final : public unary_layer {
public:
  gelu_layer(std::string name, dtype type) : unary_layer(std::move(name), type) {}

  void backward_weight(stream&, const micro_batch&, activation&) override {}

protected:
  tensor map(stream& on, const micro_batch& which, tensor input, activation& save) override {
    auto output = ops::gelu(on, input);
    if (saves(which))
      keep(save, std::move(input));
    return output;
  }

  tensor pull_back(stream& on, const micro_batch&, tensor dy, activation& saved) override {
    auto result = ops::gelu_backward(on, dy, saved.saved.front());
    saved.saved.clear();
    return result;
  }
};

class dropout_layer final : public unary_layer {
public:
  dropout_layer(std::string name, double probability, dtype type)
    : unary_layer(std::move(name), type),
      probability_(probability) {
    if (!(probability >= 0 && probability < 1))
      throw std::invalid_argument(this->name() + ": the dropout probability must be in [0, 1)");
  }

  void backward_weight(stream&, const micro_batch&, activation&) override {}

protected:
  tensor map(stream& on, const micro_batch& which, tensor input, activation&) override {
    return ops::dropout(on, std::move(input), mask(which, probability_, 0));
  }

  tensor pull_back(stream& on, const micro_batch& which, tensor dy, activation&) override {
    return ops::dropout(on, std::move(dy), mask(which, probability_, 0));
  }

private:
  double probability_;
};

} // namespace

module_ptr make_gelu(std::string name, dtype type) {
  return std::make_unique<gelu_layer>(std::move(name), type);
}

module_ptr make_dropout(std::string name, double probability, dtype type) {
  return std::make_unique<dropout_layer>(std::move(name), probability, type);
}

} // namespace sluice::kernels::nn
