#include "kernels/nn/layer_norm.hpp"

#include "kernels/ops/add.hpp"
#include "kernels/ops/layer_norm.hpp"

namespace sluice::kernels::nn {

namespace {

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

module_ptr make_layer_norm(std::string name, std::int64_t width, dtype type) {
  return std::make_unique<layer_norm_layer>(name, width, type);
}

void add_affine_gradients(stream& on, const tensor& affine, tensor& weight_gradient,
                          tensor& bias_gradient) {
  const auto row = weight_gradient.shape();
  ops::add_into(on, weight_gradient, affine.slice(0, 1).reshaped(row));
  ops::add_into(on, bias_gradient, affine.slice(1, 1).reshaped(row));
}

} // namespace sluice::kernels::nn
