// Modules that users write: without parameters, the identity, in place, a view, several tensors.

#include "kernels/nn/head.hpp"
#include "kernels/nn/layer.hpp"
#include "kernels/nn/linear.hpp"
#include "kernels/nn/pointwise.hpp"
#include "kernels/nn/recomputed.hpp"
#include "kernels/nn/sequential.hpp"
#include "tests/kernels/gradient_check.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

constexpr auto f64 = dtype::float64;

// Gives back what it gets, handle and all.
class identity final : public nn::unary_layer {
public:
  identity() : unary_layer("identity", f64) {}
  void backward_weight(stream&, const nn::micro_batch&, nn::activation&) override {}

protected:
  tensor map(stream&, const nn::micro_batch&, tensor input, nn::activation&) override {
    return input;
  }
  tensor pull_back(stream&, const nn::micro_batch&, tensor dy, nn::activation&) override {
    return dy;
  }
};

// Doubles in place what it alone holds.
class doubled_in_place final : public nn::unary_layer {
public:
  doubled_in_place() : unary_layer("doubled", f64) {}
  void backward_weight(stream&, const nn::micro_batch&, nn::activation&) override {}

protected:
  tensor map(stream& on, const nn::micro_batch&, tensor input, nn::activation&) override {
    return doubled(on, std::move(input));
  }
  tensor pull_back(stream& on, const nn::micro_batch&, tensor dy, nn::activation&) override {
    return doubled(on, std::move(dy));
  }

private:
  static tensor doubled(stream& on, tensor x) {
    auto result = x.unique() ? std::move(x) : copy(on, x);
    for (auto& element : result.span<double>())
      element *= 2;
    return result;
  }
};

// The same elements as one long row per sample: shares its input's buffer.
class flattened final : public nn::unary_layer {
public:
  flattened() : unary_layer("flattened", f64) {}
  void backward_weight(stream&, const nn::micro_batch&, nn::activation& saved) override {
    saved.saved.clear();
  }

protected:
  tensor map(stream&, const nn::micro_batch& which, tensor input, nn::activation& save) override {
    const auto rows = input.shape()[0];
    if (nn::saves(which))
      keep(save, input); // for its shape
    return input.reshaped({rows, input.elements() / rows});
  }
  tensor pull_back(stream&, const nn::micro_batch&, tensor dy, nn::activation& saved) override {
    return dy.reshaped(saved.saved.front().shape());
  }
};

enum class odd_end { identity, in_place, view, gelu };

nn::module_ptr make_odd(odd_end which) {
  switch (which) {
  case odd_end::identity:
    return std::make_unique<identity>();
  case odd_end::in_place:
    return std::make_unique<doubled_in_place>();
  case odd_end::view:
    return std::make_unique<flattened>();
  case odd_end::gelu:
    break;
  }
  return nn::make_gelu("gelu", f64);
}

// linear, odd | linear, odd, head: cut into two chunks where the bar is.
struct cut_model {
  nn::module_ptr first;
  nn::module_ptr second;
};

cut_model make_cut(stream& on, odd_end odd, bool recompute) {
  std::vector<nn::module_ptr> a;
  a.push_back(nn::make_linear("a", {5, 6, 0.5}, f64));
  a.push_back(make_odd(odd));
  std::vector<nn::module_ptr> b;
  b.push_back(make_odd(odd));
  b.push_back(nn::make_linear("b", {6, 6, 0.5}, f64));
  b.push_back(make_odd(odd));
  b.push_back(nn::make_classifier_head(4, 6, f64));
  cut_model made{std::make_unique<nn::sequential>("a", std::move(a)),
                 std::make_unique<nn::sequential>("b", std::move(b))};
  if (recompute) {
    made.first = std::make_unique<nn::recomputed>(std::move(made.first));
    made.second = std::make_unique<nn::recomputed>(std::move(made.second));
  }
  made.first->initialise(on, 3);
  made.second->initialise(on, 3);
  return made;
}

struct odd_case {
  const char* name;
  odd_end odd;
};
constexpr odd_case odd_cases[] = {{"the identity", odd_end::identity},
                                  {"in place", odd_end::in_place},
                                  {"a view", odd_end::view},
                                  {"no parameters", odd_end::gelu}};

} // namespace

TEST_CASE("gradients are right around modules without parameters, in place, views, identities") {
  for (const auto& [name, odd] : odd_cases) {
    INFO(std::string(name));
    auto on = make_stream();
    std::vector<nn::module_ptr> layers;
    layers.push_back(make_odd(odd));
    layers.push_back(nn::make_linear("a", {5, 6, 0.5}, f64));
    layers.push_back(make_odd(odd));
    layers.push_back(nn::make_linear("b", {6, 3, 0.5}, f64));
    layers.push_back(make_odd(odd));
    nn::sequential model("odd", std::move(layers));
    model.initialise(on, 3);
    gradient_check(on, model, {}, list(random_tensor(on, f64, {4, 5}, 1))).run();
  }
}

TEST_CASE("a chunk may end in the identity, in place or in a view, with two in flight") {
  for (const auto& [name, odd] : odd_cases)
    for (const bool recompute : {false, true}) {
      INFO(std::string(name), " recompute ", recompute);
      auto on = make_stream();
      auto model = make_cut(on, odd, recompute);
      struct in_flight {
        nn::micro_batch which;
        tensor_list inputs;
        tensor labels;
        nn::activation a, b;
        tensor_list flowing;
      };
      std::vector<in_flight> all(2);
      for (int i = 0; i < 2; ++i) {
        all[i].which.first_sample = 3 * i;
        all[i].inputs = list(random_tensor(on, f64, {3, 5}, i + 1));
        all[i].labels = random_ids(on, {3}, i + 9, 4);
        all[i].a = model.first->make_activation();
        all[i].b = model.second->make_activation();
      }
      const auto forward = [&](in_flight& m) {
        m.flowing = model.first->forward(on, m.which, m.inputs, m.a);
        m.flowing.push_back(m.labels);
        m.flowing = model.second->forward(on, m.which, std::move(m.flowing), m.b);
      };
      const auto backward = [&](in_flight& m) {
        auto gradients = model.second->backward_input(on, m.which, {}, m.b);
        gradients.resize(1);
        model.first->backward_input(on, m.which, std::move(gradients), m.a);
        model.second->backward_weight(on, m.which, m.b);
        model.first->backward_weight(on, m.which, m.a);
      };
      const auto both_gradients = [&] {
        auto got = gradients_of(on, *model.first);
        for (auto& gradient : gradients_of(on, *model.second))
          got.push_back(gradient);
        zero_gradients(*model.first);
        zero_gradients(*model.second);
        return got;
      };
      for (auto& m : all)
        forward(m), backward(m);
      const auto expected = both_gradients();
      for (auto& m : all)
        forward(m);
      for (auto& m : all)
        backward(m);
      CHECK(same_bits(both_gradients(), expected));
      CHECK(std::isfinite(element(expected.front(), 0)));
    }
}

TEST_CASE("tensors that a layer does not know pass through, without gradient") {
  auto on = make_stream();
  auto model = nn::make_linear("l", {5, 6}, f64);
  model->initialise(on, 1);
  auto save = model->make_activation();
  const auto ids = random_ids(on, {3}, 1, 9);
  auto outputs =
    model->forward(on, {}, list(random_tensor(on, f64, {2, 5}, 1), ids, tensor{}), save);
  REQUIRE(outputs.size() == 3);
  CHECK(outputs[1].shares_buffer_with(ids));
  CHECK_FALSE(outputs[2]);
  const auto gradients = model->backward_input(
    on, {}, list(random_tensor(on, f64, {2, 6}, 1), tensor{}, tensor{}), save);
  REQUIRE(gradients.size() == 3);
  CHECK(gradients[0]);
  CHECK_FALSE(gradients[1]);
  CHECK_FALSE(gradients[2]);
}

TEST_CASE("data need no gradient, and none is computed") {
  auto on = make_stream();
  auto model = nn::make_linear("l", {5, 6, 0.02, nn::input_gradient::none}, f64);
  model->initialise(on, 1);
  auto save = model->make_activation();
  model->forward(on, {}, list(random_tensor(on, f64, {2, 5}, 1)), save);
  CHECK_FALSE(model->backward_input(on, {}, list(random_tensor(on, f64, {2, 6}, 1)), save)[0]);
}

TEST_CASE("a head without targets, and a layer without input, say so") {
  auto on = make_stream();
  auto head = nn::make_classifier_head(4, 6, f64);
  head->initialise(on, 1);
  auto save = head->make_activation();
  CHECK_THROWS_WITH_AS(head->forward(on, {}, list(random_tensor(on, f64, {2, 6}, 1)), save),
                       "head: no targets to compute the loss with", std::invalid_argument);
  CHECK_THROWS_WITH_AS(nn::make_gelu("g", f64)->forward(on, {}, {}, save), "g: no input",
                       std::invalid_argument);
}
