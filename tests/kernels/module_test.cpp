// What the pipeline relies on: the same bits however the backward is split, delayed, recomputed or
// interleaved with other micro-batches.

#include "kernels/nn/attention_block.hpp"
#include "kernels/nn/gpt.hpp"
#include "kernels/nn/linear.hpp"
#include "kernels/nn/mlp.hpp"
#include "kernels/nn/pointwise.hpp"
#include "kernels/nn/profile.hpp"
#include "kernels/nn/recomputed.hpp"
#include "kernels/nn/sequential.hpp"
#include "kernels/nn/tie.hpp"
#include "kernels/ops/cross_entropy.hpp"
#include "tests/kernels/fixtures.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

constexpr nn::gpt_config small{31, 2, 24, 3, 13, 0.1};

// One micro-batch of a step of several, each of two samples.
struct work {
  nn::micro_batch which;
  tensor_list inputs;
};

std::vector<work> micro_batches(stream& on, int count, std::int64_t length = 13) {
  std::vector<work> all;
  for (int i = 0; i < count; ++i) {
    work made;
    made.which.seed = 5;
    made.which.step = 2;
    made.which.first_sample = 2 * i;
    made.which.loss_scale = 1.0 / 64;
    auto targets = random_ids(on, {2, length}, 100 + i, 31);
    for (std::int64_t t = 0; t < targets.elements(); t += 3) // a third ignored
      targets.data<std::int32_t>()[t] = -1;
    made.inputs = list(random_ids(on, {2, length}, i, 31), targets);
    all.push_back(std::move(made));
  }
  return all;
}

nn::module_ptr make_model(stream& on, bool recompute = false, const nn::gpt_config& config = small,
                          dtype type = dtype::float32) {
  auto layers = nn::make_gpt(config, type);
  if (recompute)
    for (auto& layer : layers)
      layer = std::make_unique<nn::recomputed>(std::move(layer));
  nn::module_ptr model = std::make_unique<nn::sequential>("gpt", std::move(layers));
  model->initialise(on, 9);
  return model;
}

// The reference: each micro-batch whole, one after another.
std::vector<tensor> serial_gradients(stream& on, nn::stage_module& model, std::vector<work> all) {
  zero_gradients(model);
  auto save = model.make_activation();
  for (auto& each : all) {
    model.forward(on, each.which, each.inputs, save);
    model.backward_input(on, each.which, {}, save);
    model.backward_weight(on, each.which, save);
  }
  return gradients_of(on, model);
}

} // namespace

TEST_CASE("W may come any time after B, and forwards in between, with the same bits") {
  auto on = make_stream();
  auto model = make_model(on);
  auto all = micro_batches(on, 4);
  const auto expected = serial_gradients(on, *model, all);
  zero_gradients(*model);
  std::vector<nn::activation> saves;
  for (int i = 0; i < 4; ++i)
    saves.push_back(model->make_activation());
  const auto f = [&](int i) { model->forward(on, all[i].which, all[i].inputs, saves[i]); };
  const auto b = [&](int i) { model->backward_input(on, all[i].which, {}, saves[i]); };
  const auto w = [&](int i) { model->backward_weight(on, all[i].which, saves[i]); };
  SUBCASE("all W at the end") {
    f(0), f(1), b(0), f(2), b(1), f(3), b(2), b(3);
    w(0), w(1), w(2), w(3);
  }
  SUBCASE("one late") {
    f(0), f(1), f(2), f(3);
    b(0), b(1), w(0), b(2), w(1), b(3), w(2), w(3);
  }
  SUBCASE("B in the order of a queue, W far behind") {
    f(0), b(0), f(1), b(1), f(2), b(2), w(0), f(3), w(1), b(3), w(2), w(3);
  }
  CHECK(same_bits(gradients_of(on, *model), expected));
}

TEST_CASE("a module's layers may do W in any order among themselves") {
  auto on = make_stream();
  auto whole = make_model(on);
  auto all = micro_batches(on, 1);
  const auto expected = serial_gradients(on, *whole, all);

  auto layers = nn::make_gpt(small);
  std::vector<nn::activation> saves;
  auto flowing = all[0].inputs;
  for (auto& layer : layers) {
    layer->initialise(on, 9);
    saves.push_back(layer->make_activation());
    flowing = layer->forward(on, all[0].which, std::move(flowing), saves.back());
  }
  flowing.clear();
  for (std::size_t i = layers.size(); i-- > 0;)
    flowing = layers[i]->backward_input(on, all[0].which, std::move(flowing), saves[i]);
  for (const auto i : {3, 0, 5, 1, 4, 2})
    layers[i]->backward_weight(on, all[0].which, saves[i]);
  std::vector<tensor> got;
  for (auto& layer : layers)
    for (auto& gradient : gradients_of(on, *layer))
      got.push_back(gradient);
  CHECK(same_bits(got, expected));
}

TEST_CASE("recomputation is bitwise the same, with dropout and other micro-batches between") {
  auto on = make_stream();
  auto saved = make_model(on);
  auto recomputed = make_model(on, true);
  const auto all = micro_batches(on, 3);
  const auto expected = serial_gradients(on, *saved, all);
  CHECK(same_bits(serial_gradients(on, *recomputed, all), expected));
  zero_gradients(*recomputed);
  std::vector<nn::activation> saves;
  for (const auto& each : all) {
    saves.push_back(recomputed->make_activation());
    const auto loss = recomputed->forward(on, each.which, each.inputs, saves.back());
    auto other = saved->make_activation();
    CHECK(same_bits(loss.front(), saved->forward(on, each.which, each.inputs, other).front()));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    recomputed->backward_input(on, all[i].which, {}, saves[i]);
    recomputed->backward_weight(on, all[i].which, saves[i]);
  }
  CHECK(same_bits(gradients_of(on, *recomputed), expected));
}

TEST_CASE("recomputation keeps the inputs alone") {
  auto on = make_stream();
  const auto kept = [&](bool recompute) {
    auto model = make_model(on, recompute);
    auto save = model->make_activation();
    auto all = micro_batches(on, 1);
    const auto before = on.pool().usage().live(buffer_use::activation);
    const auto loss = model->forward(on, all[0].which, all[0].inputs, save);
    return on.pool().usage().live(buffer_use::activation) - before;
  };
  CHECK(kept(true) * 5 < kept(false));
}

TEST_CASE("nothing is kept once W is done, nor by a forward that is not for training") {
  auto on = make_stream();
  auto model = make_model(on, false);
  SUBCASE("recomputed") {
    model = make_model(on, true);
  }
  auto all = micro_batches(on, 1);
  auto save = model->make_activation();
  const auto before = on.pool().usage().live_total_bytes;
  model->forward(on, all[0].which, all[0].inputs, save);
  model->backward_input(on, all[0].which, {}, save);
  model->backward_weight(on, all[0].which, save);
  CHECK(on.pool().usage().live_total_bytes == before);
  for (const auto what : {nn::purpose::evaluate, nn::purpose::predict}) {
    all[0].which.purpose = what;
    model->forward(on, all[0].which, all[0].inputs, save);
    CHECK(on.pool().usage().live_total_bytes == before);
  }
}

TEST_CASE("evaluation gives the loss without dropout, and prediction the logits for the same") {
  auto on = make_stream();
  auto model = make_model(on);
  auto all = micro_batches(on, 1);
  auto save = model->make_activation();
  auto which = all[0].which;
  which.purpose = nn::purpose::evaluate;
  const auto loss = model->forward(on, which, all[0].inputs, save);
  which.step = 77; // no dropout: the step does not matter
  CHECK(same_bits(model->forward(on, which, all[0].inputs, save).front(), loss.front()));
  which.purpose = nn::purpose::predict;
  auto logits = model->forward(on, which, list(all[0].inputs[0]), save).front();
  CHECK(logits.shape() == shape{2, 13, 31});
  CHECK(same_bits(ops::cross_entropy(on, logits, all[0].inputs[1]), loss.front()));
}

TEST_CASE("poisoned buffers change nothing: no module reads what it did not write") {
  stream clean(make_cpu_device());
  auto poisoned = make_stream();
  auto one = make_model(clean);
  auto two = make_model(poisoned);
  const auto expected = serial_gradients(clean, *one, micro_batches(clean, 3));
  const auto got = serial_gradients(poisoned, *two, micro_batches(poisoned, 3));
  CHECK(same_bits(got, expected));
}

TEST_CASE("valid targets of 1 and 3, one micro-batch or two: the same loss and gradient") {
  auto on = make_stream();
  auto config = small;
  auto model = make_model(on, false, config, dtype::float64);
  auto ids = random_ids(on, {2, 5}, 1, 31);
  auto targets = on.allocate(dtype::int32, {2, 5});
  std::fill_n(targets.data<std::int32_t>(), 10, -1);
  for (const auto valid : {2, 6, 7, 9}) // one in the first sample, three in the second
    targets.data<std::int32_t>()[valid] = 3 + valid;
  work whole;
  whole.which.loss_scale = 1.0 / 4;
  whole.inputs = list(ids, targets);
  std::vector<work> halves;
  for (int i = 0; i < 2; ++i) {
    auto half = whole;
    half.which.first_sample = i;
    half.inputs = list(ids.slice(i, 1), targets.slice(i, 1));
    halves.push_back(half);
  }
  SUBCASE("as they are") {}
  SUBCASE("with a third micro-batch, all ignored") {
    auto empty = halves[0];
    empty.which.first_sample = 2;
    auto none = on.allocate(dtype::int32, {1, 5});
    std::fill_n(none.data<std::int32_t>(), 5, -1);
    empty.inputs = list(ids.slice(0, 1), none);
    halves.push_back(empty);
  }
  const auto expected = serial_gradients(on, *model, {whole});
  const auto got = serial_gradients(on, *model, halves);
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(close(values(got[i]), values(expected[i]), 1e-15, 1e-12));
}

TEST_CASE("micro-batches of different lengths work in one step") {
  auto on = make_stream();
  auto model = make_model(on);
  auto first = micro_batches(on, 1, 12);
  auto second = micro_batches(on, 1, 13);
  second[0].which.first_sample = 2;
  const auto expected = serial_gradients(on, *model, {first[0], second[0]});
  zero_gradients(*model);
  auto a = model->make_activation();
  auto b = model->make_activation();
  model->forward(on, first[0].which, first[0].inputs, a);
  model->forward(on, second[0].which, second[0].inputs, b);
  model->backward_input(on, first[0].which, {}, a);
  model->backward_input(on, second[0].which, {}, b);
  model->backward_weight(on, first[0].which, a);
  model->backward_weight(on, second[0].which, b);
  CHECK(same_bits(gradients_of(on, *model), expected));
}

TEST_CASE("tied parameters share a value and sum two gradients once") {
  auto on = make_stream();
  auto layers = nn::make_gpt(small);
  for (auto& layer : layers)
    layer->initialise(on, 9);
  const auto all = nn::all_parameters(layers);
  std::vector<nn::parameter*> twins;
  for (auto* each : all)
    if (each->name == "wte.weight")
      twins.push_back(each);
  REQUIRE(twins.size() == 2);
  CHECK(same_bits(twins[0]->value, twins[1]->value)); // by name alone
  nn::tie_parameters(all);
  CHECK(twins[0]->value.shares_buffer_with(twins[1]->value));
  CHECK_FALSE(twins[0]->gradient.shares_buffer_with(twins[1]->gradient));
  std::ranges::fill(twins[0]->gradient.span<float>(), 1.0F);
  std::ranges::fill(twins[1]->gradient.span<float>(), 2.0F);
  nn::add_tied_gradients(on, all);
  CHECK(twins[0]->gradient.data<float>()[5] == 3.0F);
  CHECK(twins[1]->gradient.data<float>()[5] == 2.0F);
  nn::zero_gradients(all);
  CHECK(twins[1]->gradient.data<float>()[5] == 0.0F);
}

TEST_CASE("a GPT is 2 layers + 2 modules with GPT-2's parameter names") {
  const auto layers = nn::make_gpt(small);
  std::vector<std::string> names;
  for (const auto& layer : layers)
    names.push_back(layer->name());
  CHECK(
    names
    == std::vector<std::string>{"embedding", "h.0.attn", "h.0.mlp", "h.1.attn", "h.1.mlp", "head"});
  std::string parameters;
  for (const auto* each : nn::all_parameters(std::span(layers).subspan(3, 2)))
    parameters += each->name + (each->decays ? "*\n" : "\n");
  CHECK(parameters
        == "h.1.ln_1.weight\nh.1.ln_1.bias\nh.1.attn.c_attn.weight*\nh.1.attn.c_attn.bias\n"
           "h.1.attn.c_proj.weight*\nh.1.attn.c_proj.bias\nh.1.ln_2.weight\nh.1.ln_2.bias\n"
           "h.1.mlp.c_fc.weight*\nh.1.mlp.c_fc.bias\nh.1.mlp.c_proj.weight*\n"
           "h.1.mlp.c_proj.bias\n");
}

TEST_CASE("models of impossible sizes are refused") {
  auto config = small;
  SUBCASE("heads") {
    config.heads = 5;
    CHECK_THROWS_WITH_AS(nn::make_gpt(config), "gpt: width 24 is not divisible by 5 heads",
                         std::invalid_argument);
  }
  SUBCASE("layers") {
    config.layers = 0;
    CHECK_THROWS_WITH_AS(nn::make_gpt(config), "gpt: layers = 0 must be at least 1",
                         std::invalid_argument);
  }
  SUBCASE("dropout") {
    config.dropout = 1;
    CHECK_THROWS_WITH_AS(nn::make_gpt(config), "gpt: dropout 1 is not in [0, 1)",
                         std::invalid_argument);
  }
  SUBCASE("classes") {
    CHECK_THROWS_WITH_AS(nn::make_mlp({7, 9, 2, 0, 0}), "mlp: classes = 0 must be at least 1",
                         std::invalid_argument);
  }
}

TEST_CASE("a profile measures every layer and leaves no gradient behind") {
  auto on = make_stream();
  auto layers = nn::make_gpt(small);
  for (auto& layer : layers)
    layer->initialise(on, 9);
  const auto inputs = micro_batches(on, 1)[0].inputs;
  const auto costs = nn::profile_layers(on, layers, inputs, 3);
  REQUIRE(costs.size() == layers.size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    CHECK(costs[i].name == layers[i]->name());
    CHECK(costs[i].forward.count() > 0);
    CHECK(costs[i].backward_input.count() > 0);
    CHECK(costs[i].backward_weight.count() > 0);
    CHECK(costs[i].output_bytes == (i + 1 == costs.size() ? 8 : 2 * 13 * 24 * 4));
    CHECK(costs[i].activation_bytes > 0);
  }
  CHECK(costs[2].parameter_bytes == (24 * 2 + 24 * 96 * 2 + 96 + 24) * 4);
  for (const auto* each : nn::all_parameters(layers))
    for (const auto element : each->gradient.span<float>())
      CHECK(element == 0);
}
