#include "kernels/nn/linear.hpp"

#include "kernels/ops/cast.hpp"
#include "kernels/ops/linear.hpp"

namespace sluice::kernels::nn {

namespace {

class linear_layer final : public unary_layer {
public:
  linear_layer(const std::string& name, const linear_config& config, dtype type)
    : unary_layer(
      name, type,
      {{name + ".weight", {config.outputs, config.inputs}, normal(config.deviation), true},
       {name + ".bias", {config.outputs}, zeros()}}),
      gradient_(config.gradient) {}

  void backward_weight(stream& on, const micro_batch&, activation& saved) override {
    ops::linear_weight_gradient(on, saved.saved[output_gradient], saved.saved[input],
                                gradient(weight), gradient(bias));
    saved.saved.clear();
  }

protected:
  tensor map(stream& on, const micro_batch& which, tensor from, activation& save) override {
    if (gradient_ == input_gradient::none && from.type() != type())
      from = ops::cast(on, from, type()); // data comes in float32, whatever the layers compute in
    auto output = ops::linear(on, from, value(weight), value(bias));
    if (saves(which))
      keep(save, std::move(from));
    return output;
  }

  tensor pull_back(stream& on, const micro_batch&, tensor dy, activation& saved) override {
    tensor result;
    if (gradient_ == input_gradient::wanted)
      result = ops::linear_input_gradient(on, dy, value(weight));
    keep(saved, std::move(dy));
    return result;
  }

private:
  enum : std::size_t { weight, bias };
  enum : std::size_t { input, output_gradient }; // what is saved
  input_gradient gradient_;
};

} // namespace

module_ptr make_linear(std::string name, const linear_config& config, dtype type) {
  return std::make_unique<linear_layer>(name, config, type);
}

} // namespace sluice::kernels::nn
