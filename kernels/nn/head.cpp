#include "kernels/nn/head.hpp"

#include <stdexcept>

#include "kernels/nn/layer_norm.hpp"
#include "kernels/ops/cast.hpp"
#include "kernels/ops/cross_entropy.hpp"
#include "kernels/ops/layer_norm.hpp"
#include "kernels/ops/linear.hpp"

namespace sluice::kernels::nn {

namespace {

void check_inputs(const std::string& name, const micro_batch& which, const tensor_list& inputs) {
  if (inputs.empty() || !inputs[0])
    throw std::invalid_argument(name + ": no input");
  if (which.purpose != purpose::predict && (inputs.size() < 2 || !inputs[1]))
    throw std::invalid_argument(name + ": no targets to compute the loss with");
}

tensor_list one(tensor only) {
  tensor_list list;
  list.push_back(std::move(only));
  return list;
}

// What a prediction gives is read by others, who need not know what the layers compute in.
tensor_list prediction(stream& on, tensor logits) {
  const auto wanted = accumulation_type(logits.type());
  return one(logits.type() == wanted ? std::move(logits) : ops::cast(on, logits, wanted));
}

// The gradients of (hidden, targets).
tensor_list with_no_target_gradient(tensor hidden) {
  auto list = one(std::move(hidden));
  list.emplace_back();
  return list;
}

class gpt_head final : public layer {
public:
  gpt_head(std::int64_t vocabulary, std::int64_t width, dtype type, bool tied)
    : layer("head", type,
            {{"ln_f.weight", {width}, ones()},
             {"ln_f.bias", {width}, zeros()},
             {tied ? "wte.weight" : "lm_head.weight",
              {vocabulary, width},
              normal(0.02),
              true,
              tied ? 1 : 0}}) {}

  tensor_list forward(stream& on, const micro_batch& which, tensor_list inputs,
                      activation& save) override {
    check_inputs(name(), which, inputs);
    auto [normed, kept] = ops::layer_norm(on, inputs[0], value(norm_weight), value(norm_bias));
    auto logits = ops::linear(on, normed, value(matrix));
    normed = {};
    if (which.purpose == purpose::predict)
      return prediction(on, std::move(logits));
    auto loss = ops::cross_entropy(on, logits, inputs[1]);
    if (saves(which)) {
      keep(save, std::move(inputs[0]));
      keep(save, std::move(kept));
      keep(save, std::move(logits));
      keep(save, std::move(inputs[1]));
    }
    return one(std::move(loss));
  }

  tensor_list backward_input(stream& on, const micro_batch& which, tensor_list,
                             activation& saved) override {
    auto& s = saved.saved;
    ops::cross_entropy_backward(on, s[probabilities], s[targets], which.loss_scale);
    s.resize(targets);
    const auto d_normed = ops::linear_input_gradient(on, s[probabilities], value(matrix));
    auto norm =
      ops::layer_norm_backward(on, d_normed, s[hidden], s[statistics], value(norm_weight));
    keep(saved, std::move(norm.affine));
    return with_no_target_gradient(std::move(norm.input));
  }

  void backward_weight(stream& on, const micro_batch&, activation& saved) override {
    auto& s = saved.saved;
    const auto normed =
      ops::layer_norm_again(on, s[hidden], s[statistics], value(norm_weight), value(norm_bias));
    ops::linear_weight_gradient(on, s[probabilities], normed, gradient(matrix));
    add_affine_gradients(on, s[affine], gradient(norm_weight), gradient(norm_bias));
    s.clear();
  }

private:
  enum : std::size_t { norm_weight, norm_bias, matrix };
  // B turns the probabilities into the gradients of the logits.
  enum : std::size_t { hidden, statistics, probabilities, targets, affine = targets };
};

class classifier_head final : public layer {
public:
  classifier_head(std::int64_t classes, std::int64_t width, dtype type)
    : layer(
      "head", type,
      {{"head.weight", {classes, width}, normal(0.02), true}, {"head.bias", {classes}, zeros()}}) {}

  tensor_list forward(stream& on, const micro_batch& which, tensor_list inputs,
                      activation& save) override {
    check_inputs(name(), which, inputs);
    auto logits = ops::linear(on, inputs[0], value(weight), value(bias));
    if (which.purpose == purpose::predict)
      return prediction(on, std::move(logits));
    auto loss = ops::cross_entropy(on, logits, inputs[1]);
    if (saves(which)) {
      keep(save, std::move(inputs[0]));
      keep(save, std::move(logits));
      keep(save, std::move(inputs[1]));
    }
    return one(std::move(loss));
  }

  tensor_list backward_input(stream& on, const micro_batch& which, tensor_list,
                             activation& saved) override {
    auto& s = saved.saved;
    ops::cross_entropy_backward(on, s[probabilities], s[targets], which.loss_scale);
    s.resize(targets);
    return with_no_target_gradient(ops::linear_input_gradient(on, s[probabilities], value(weight)));
  }

  void backward_weight(stream& on, const micro_batch&, activation& saved) override {
    auto& s = saved.saved;
    ops::linear_weight_gradient(on, s[probabilities], s[features], gradient(weight),
                                gradient(bias));
    s.clear();
  }

private:
  enum : std::size_t { weight, bias };
  enum : std::size_t { features, probabilities, targets };
};

} // namespace

module_ptr make_gpt_head(std::int64_t vocabulary, std::int64_t width, dtype type, bool tied) {
  return std::make_unique<gpt_head>(vocabulary, width, type, tied);
}

module_ptr make_classifier_head(std::int64_t classes, std::int64_t width, dtype type) {
  return std::make_unique<classifier_head>(classes, width, type);
}

} // namespace sluice::kernels::nn
