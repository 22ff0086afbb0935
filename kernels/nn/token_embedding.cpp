#include "kernels/nn/token_embedding.hpp"

#include "kernels/ops/embedding.hpp"

namespace sluice::kernels::nn {

namespace {

class token_embedding final : public unary_layer {
public:
  token_embedding(const embedding_config& config, dtype type)
    : unary_layer("embedding", type,
                  {{"wte.weight", {config.vocabulary, config.width}, normal(0.02), true, 0},
                   {"wpe.weight", {config.length, config.width}, normal(0.02), true}}),
      dropout_(config.dropout) {}

  void backward_weight(stream& on, const micro_batch&, activation& saved) override {
    ops::embedding_backward(on, saved.saved[1], saved.saved[0], gradient(0), gradient(1));
    saved.saved.clear();
  }

protected:
  tensor map(stream& on, const micro_batch& which, tensor ids, activation& save) override {
    auto output = ops::embedding(on, ids, value(0), value(1));
    if (saves(which))
      keep(save, std::move(ids));
    return ops::dropout(on, std::move(output), mask(which, dropout_, 0));
  }

  tensor pull_back(stream& on, const micro_batch& which, tensor dy, activation& saved) override {
    keep(saved, ops::dropout(on, std::move(dy), mask(which, dropout_, 0)));
    return {};
  }

private:
  double dropout_;
};

} // namespace

module_ptr make_token_embedding(const embedding_config& config, dtype type) {
  return std::make_unique<token_embedding>(config, type);
}

} // namespace sluice::kernels::nn
