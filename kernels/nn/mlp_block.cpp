#include "kernels/nn/mlp_block.hpp"

#include "kernels/nn/layer_norm.hpp"
#include "kernels/ops/add.hpp"
#include "kernels/ops/layer_norm.hpp"
#include "kernels/ops/linear.hpp"

namespace sluice::kernels::nn {

namespace {

class mlp_block final : public unary_layer {
public:
  mlp_block(const std::string& prefix, const block_config& config, dtype type)
    : unary_layer(prefix + ".mlp", type, describe(prefix, config)),
      config_(config) {}

  activation make_activation() const override {
    activation made;
    made.saved.reserve(most_saved);
    return made;
  }

  void backward_weight(stream& on, const micro_batch&, activation& saved) override {
    auto& s = saved.saved;
    ops::linear_weight_gradient(on, s[projected_gradient], s[active], gradient(proj_weight),
                                gradient(proj_bias));
    s[projected_gradient] = {};
    s[active] = {};
    const auto normed =
      ops::layer_norm_again(on, s[input], s[statistics], value(norm_weight), value(norm_bias));
    ops::linear_weight_gradient(on, s[expanded], normed, gradient(fc_weight), gradient(fc_bias));
    add_affine_gradients(on, s[affine], gradient(norm_weight), gradient(norm_bias));
    s.clear();
  }

protected:
  tensor map(stream& on, const micro_batch& which, tensor from, activation& save) override {
    auto [normed, kept] = ops::layer_norm(on, from, value(norm_weight), value(norm_bias));
    auto [gated, wide] = ops::linear_gelu(on, normed, value(fc_weight), value(fc_bias));
    normed = {};
    auto output = ops::linear(on, gated, value(proj_weight), value(proj_bias));
    output = ops::dropout(on, std::move(output), mask(which, config_.dropout, residual));
    ops::add_into(on, output, from);
    if (saves(which)) {
      keep(save, std::move(from));
      keep(save, std::move(kept));
      keep(save, std::move(gated));
      keep(save, std::move(wide));
    }
    return output;
  }

  tensor pull_back(stream& on, const micro_batch& which, tensor dy, activation& saved) override {
    auto& s = saved.saved;
    auto projected = ops::dropout(on, dy, mask(which, config_.dropout, residual));
    auto d_wide = ops::linear_gelu_input_gradient(on, projected, value(proj_weight), s[expanded]);
    s.resize(expanded);
    const auto d_normed = ops::linear_input_gradient(on, d_wide, value(fc_weight));
    auto norm = ops::layer_norm_backward(on, d_normed, s[input], s[statistics], value(norm_weight));
    ops::add_into(on, norm.input, dy);
    // For W the gradients take the places of what only B needed.
    keep(saved, std::move(d_wide));
    keep(saved, std::move(projected));
    keep(saved, std::move(norm.affine));
    return std::move(norm.input);
  }

private:
  enum : std::size_t { norm_weight, norm_bias, fc_weight, fc_bias, proj_weight, proj_bias };
  enum : std::size_t { input, statistics, active, expanded, most_saved = 6 };
  enum : std::size_t { projected_gradient = expanded + 1, affine }; // after B
  enum : std::uint32_t { residual = 1 };                            // dropouts

  static std::vector<parameter_description> describe(const std::string& prefix,
                                                     const block_config& config) {
    const auto width = config.width;
    return {{prefix + ".ln_2.weight", {width}, ones()},
            {prefix + ".ln_2.bias", {width}, zeros()},
            {prefix + ".mlp.c_fc.weight", {4 * width, width}, normal(0.02), true},
            {prefix + ".mlp.c_fc.bias", {4 * width}, zeros()},
            {prefix + ".mlp.c_proj.weight",
             {width, 4 * width},
             normal(config.projection_deviation),
             true},
            {prefix + ".mlp.c_proj.bias", {width}, zeros()}};
  }

  block_config config_;
};

} // namespace

module_ptr make_mlp_block(const std::string& prefix, const block_config& config, dtype type) {
  return std::make_unique<mlp_block>(prefix, config, type);
}

} // namespace sluice::kernels::nn
