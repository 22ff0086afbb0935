#include "kernels/nn/cast.hpp"

#include <stdexcept>

#include "kernels/ops/cast.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::nn {

namespace {

class cast_layer final : public unary_layer {
public:
  cast_layer(std::string name, dtype from, dtype to) : unary_layer(std::move(name), from), to_(to) {
    if (!is_floating(from) || !is_floating(to))
      throw std::invalid_argument(this->name() + ": casts between floating-point types only");
  }

  void backward_weight(stream&, const micro_batch&, activation&) override {}

protected:
  tensor map(stream& on, const micro_batch&, tensor from, activation&) override {
    ops::require(from, type(), from.shape(), name(), "input");
    return ops::cast(on, from, to_);
  }

  tensor pull_back(stream& on, const micro_batch&, tensor dy, activation&) override {
    ops::require(dy, to_, dy.shape(), name(), "gradient");
    return ops::cast(on, dy, type());
  }

private:
  dtype to_;
};

} // namespace

module_ptr make_cast(std::string name, dtype from, dtype to) {
  return std::make_unique<cast_layer>(std::move(name), from, to);
}

} // namespace sluice::kernels::nn
