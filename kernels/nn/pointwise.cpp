#include "kernels/nn/pointwise.hpp"

#include <stdexcept>

#include "kernels/nn/norm_part.hpp"
#include "kernels/ops/gelu.hpp"
#include "kernels/ops/layer_norm.hpp"

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

class layer_norm_layer final : public unary_layer {
public:
  layer_norm_layer(const std::string& name, std::int64_t width, dtype type)
    : unary_layer(name, type,
                  {{name + ".weight", {width}, ones()}, {name + ".bias", {width}, zeros()}}) {}

  void backward_weight(stream& on, const micro_batch&, activation& saved) override {
    add_affine_gradients(on, saved.saved.front(), gradient(0), gradient(1));
    saved.saved.clear();
  }

protected:
  tensor map(stream& on, const micro_batch& which, tensor input, activation& save) override {
    auto [output, statistics] = ops::layer_norm(on, input, value(0), value(1));
    if (saves(which)) {
      keep(save, std::move(input));
      keep(save, std::move(statistics));
    }
    return output;
  }

  tensor pull_back(stream& on, const micro_batch&, tensor dy, activation& saved) override {
    auto gradients = ops::layer_norm_backward(on, dy, saved.saved[0], saved.saved[1], value(0));
    saved.saved.clear();
    keep(saved, std::move(gradients.affine));
    return std::move(gradients.input);
  }
};

} // namespace

module_ptr make_gelu(std::string name, dtype type) {
  return std::make_unique<gelu_layer>(std::move(name), type);
}

module_ptr make_dropout(std::string name, double probability, dtype type) {
  return std::make_unique<dropout_layer>(std::move(name), probability, type);
}

module_ptr make_layer_norm(std::string name, std::int64_t width, dtype type) {
  return std::make_unique<layer_norm_layer>(name, width, type);
}

} // namespace sluice::kernels::nn
