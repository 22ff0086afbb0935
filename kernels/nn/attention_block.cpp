#include "kernels/nn/attention_block.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "kernels/nn/layer_norm.hpp"
#include "kernels/ops/add.hpp"
#include "kernels/ops/attention.hpp"
#include "kernels/ops/layer_norm.hpp"
#include "kernels/ops/linear.hpp"

namespace sluice::kernels::nn {

namespace {

class attention_block final : public unary_layer {
public:
  attention_block(const std::string& prefix, const block_config& config, dtype type)
    : unary_layer(prefix + ".attn", type, describe(prefix, config)),
      config_(config) {
    if (config.heads < 1 || config.width % config.heads != 0)
      throw std::invalid_argument(fmt::format("{}: a width of {} is not divisible by {} heads",
                                              name(), config.width, config.heads));
  }

  activation make_activation() const override {
    activation made;
    made.saved.reserve(most_saved);
    return made;
  }

  void backward_weight(stream& on, const micro_batch&, activation& saved) override {
    auto& s = saved.saved;
    ops::linear_weight_gradient(on, s[projected_gradient], s[mixed], gradient(proj_weight),
                                gradient(proj_bias));
    s[projected_gradient] = {};
    s[mixed] = {};
    const auto normed =
      ops::layer_norm_again(on, s[input], s[statistics], value(norm_weight), value(norm_bias));
    ops::linear_weight_gradient(on, s[packed], normed, gradient(attn_weight), gradient(attn_bias));
    add_affine_gradients(on, s[affine], gradient(norm_weight), gradient(norm_bias));
    s.clear();
  }

protected:
  tensor map(stream& on, const micro_batch& which, tensor from, activation& save) override {
    auto [normed, kept] = ops::layer_norm(on, from, value(norm_weight), value(norm_bias));
    auto qkv = ops::linear(on, normed, value(attn_weight), value(attn_bias));
    normed = {};
    auto [heads, sums] =
      ops::causal_attention(on, qkv, config_.heads, mask(which, config_.dropout, probabilities));
    auto output = ops::linear(on, heads, value(proj_weight), value(proj_bias));
    output = ops::dropout(on, std::move(output), mask(which, config_.dropout, residual));
    ops::add_into(on, output, from);
    if (saves(which)) {
      keep(save, std::move(from));
      keep(save, std::move(kept));
      keep(save, std::move(heads));
      keep(save, std::move(qkv));
      keep(save, std::move(sums));
    }
    return output;
  }

  tensor pull_back(stream& on, const micro_batch& which, tensor dy, activation& saved) override {
    auto& s = saved.saved;
    auto projected = ops::dropout(on, dy, mask(which, config_.dropout, residual));
    auto d_qkv = ops::linear_input_gradient(on, projected, value(proj_weight));
    d_qkv = ops::causal_attention_backward(on, d_qkv, s[packed], s[log_sums],
                                           mask(which, config_.dropout, probabilities));
    const auto d_normed = ops::linear_input_gradient(on, d_qkv, value(attn_weight));
    auto norm = ops::layer_norm_backward(on, d_normed, s[input], s[statistics], value(norm_weight));
    ops::add_into(on, norm.input, dy);
    // For W the gradients take the places of what only B needed.
    s.resize(packed);
    keep(saved, std::move(d_qkv));
    keep(saved, std::move(projected));
    keep(saved, std::move(norm.affine));
    return std::move(norm.input);
  }

private:
  enum : std::size_t { norm_weight, norm_bias, attn_weight, attn_bias, proj_weight, proj_bias };
  enum : std::size_t { input, statistics, mixed, packed, log_sums, most_saved = 6 };
  enum : std::size_t { projected_gradient = log_sums, affine }; // after B
  enum : std::uint32_t { probabilities = 1, residual };         // dropouts

  static std::vector<parameter_description> describe(const std::string& prefix,
                                                     const block_config& config) {
    const auto width = config.width;
    return {
      {prefix + ".ln_1.weight", {width}, ones()},
      {prefix + ".ln_1.bias", {width}, zeros()},
      {prefix + ".attn.c_attn.weight", {3 * width, width}, normal(0.02), true},
      {prefix + ".attn.c_attn.bias", {3 * width}, zeros()},
      {prefix + ".attn.c_proj.weight", {width, width}, normal(config.projection_deviation), true},
      {prefix + ".attn.c_proj.bias", {width}, zeros()}};
  }

  block_config config_;
};

} // namespace

module_ptr make_attention_block(const std::string& prefix, const block_config& config, dtype type) {
  return std::make_unique<attention_block>(prefix, config, type);
}

} // namespace sluice::kernels::nn
