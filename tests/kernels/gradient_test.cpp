#include "tests/kernels/gradient_check.hpp"

#include "kernels/nn/attention_block.hpp"
#include "kernels/nn/gpt.hpp"
#include "kernels/nn/head.hpp"
#include "kernels/nn/layer_norm.hpp"
#include "kernels/nn/linear.hpp"
#include "kernels/nn/mlp.hpp"
#include "kernels/nn/mlp_block.hpp"
#include "kernels/nn/pointwise.hpp"
#include "kernels/nn/recomputed.hpp"
#include "kernels/nn/sequential.hpp"
#include "kernels/nn/tie.hpp"
#include "kernels/nn/token_embedding.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

constexpr auto f64 = dtype::float64;

nn::micro_batch training() {
  nn::micro_batch which;
  which.seed = 7;
  which.step = 3;
  which.first_sample = 5;
  which.loss_scale = 1.0 / 11;
  return which;
}

// Initial weights of 0.02 leave the softmax flat; larger ones test more.
void initialise(stream& on, nn::stage_module& module, double scale) {
  module.initialise(on, 42);
  unsigned seed = 1;
  for (auto& owned : module.parameters()) {
    const auto noise = random_tensor(on, f64, owned.value.shape(), seed++, scale);
    for (std::int64_t i = 0; i < noise.elements(); ++i)
      owned.value.data<double>()[i] += element(noise, i);
  }
}

void check(nn::module_ptr module, const std::function<tensor_list(stream&)>& inputs,
           double scale = 0.3) {
  auto on = make_stream();
  initialise(on, *module, scale);
  gradient_check(on, *module, training(), inputs(on)).run();
}

} // namespace

TEST_CASE("the gradients of a linear layer are its differences") {
  check(nn::make_linear("l", {5, 7}, f64), [](stream& on) {
    return list(random_tensor(on, f64, {3, 5}, 1));
  });
}

TEST_CASE("the gradients of a layer norm are its differences") {
  check(nn::make_layer_norm("n", 19, f64), [](stream& on) {
    return list(random_tensor(on, f64, {3, 2, 19}, 1));
  });
}

TEST_CASE("the gradients of GELU are its differences") {
  check(nn::make_gelu("g", f64), [](stream& on) {
    return list(random_tensor(on, f64, {3, 23}, 1, 4));
  });
}

TEST_CASE("the gradients of dropout are its differences") {
  check(nn::make_dropout("d", 0.4, f64), [](stream& on) {
    return list(random_tensor(on, f64, {3, 71}, 1));
  });
}

TEST_CASE("the gradients of an attention block are its differences") {
  double dropout = 0;
  std::int64_t length = 7;
  SUBCASE("without dropout") {}
  SUBCASE("with dropout") {
    dropout = 0.3;
  }
  SUBCASE("over several blocks of rows, with dropout") {
    dropout = 0.2;
    length = 131;
  }
  check(nn::make_attention_block("h.0", {15, 3, dropout}, f64), [length](stream& on) {
    return list(random_tensor(on, f64, {2, length, 15}, 1));
  });
}

TEST_CASE("the gradients of an MLP block are its differences") {
  double dropout = 0;
  SUBCASE("without dropout") {}
  SUBCASE("with dropout") {
    dropout = 0.3;
  }
  check(nn::make_mlp_block("h.0", {9, 1, dropout}, f64), [](stream& on) {
    return list(random_tensor(on, f64, {2, 5, 9}, 1));
  });
}

TEST_CASE("the gradients of the embedding are its differences") {
  check(nn::make_token_embedding({11, 9, 5, 0.25}, f64), [](stream& on) {
    return list(random_ids(on, {3, 7}, 1, 11));
  });
}

TEST_CASE("the gradients of the GPT head are its differences") {
  check(nn::make_gpt_head(13, 9, f64), [](stream& on) {
    auto targets = random_ids(on, {2, 5}, 2, 13);
    for (const auto ignored : {1, 4, 8}) // 30%
      targets.data<std::int32_t>()[ignored] = -1;
    return list(random_tensor(on, f64, {2, 5, 9}, 1), targets);
  });
}

TEST_CASE("the gradients of the classifier's head are its differences") {
  check(nn::make_classifier_head(7, 9, f64), [](stream& on) {
    auto labels = random_ids(on, {5}, 2, 7);
    labels.data<std::int32_t>()[3] = -1;
    return list(random_tensor(on, f64, {5, 9}, 1), labels);
  });
}

TEST_CASE("the gradients of a whole GPT are its differences, recomputed or not") {
  auto layers = nn::make_gpt({17, 2, 12, 3, 9, 0.1}, f64);
  SUBCASE("saved") {}
  SUBCASE("recomputed") {
    for (auto& layer : layers)
      layer = std::make_unique<nn::recomputed>(std::move(layer));
  }
  nn::module_ptr whole = std::make_unique<nn::sequential>("gpt", std::move(layers));
  check(std::move(whole), [](stream& on) {
    auto targets = random_ids(on, {2, 7}, 2, 17);
    targets.data<std::int32_t>()[3] = -1;
    return list(random_ids(on, {2, 7}, 1, 17), targets);
  });
}

TEST_CASE("the gradients of a whole MLP are its differences") {
  nn::module_ptr whole =
    std::make_unique<nn::sequential>("mlp", nn::make_mlp({7, 9, 3, 5, 0.2}, f64));
  check(std::move(whole), [](stream& on) {
    return list(random_tensor(on, f64, {4, 7}, 1), random_ids(on, {4}, 2, 5));
  });
}
