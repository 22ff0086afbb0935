#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "tests/torch/torch_doctest.hpp"

// A pipeline of torch modules against LibTorch alone: the same modules in a loop, one device, its
// own backward(). On a CPU its kernels are deterministic, so the bytes must be equal.

using namespace sluice;
using namespace sluice::tests;
using kernels::torch_settings;

namespace {

constexpr std::int64_t heads = 2;
constexpr std::int64_t length = 6;
constexpr float rate = 0.05f;

torch::nn::Sequential transformer() {
  torch::manual_seed(7);
  torch::nn::Sequential net;
  for (int i = 0; i < 4; ++i)
    net->push_back(torch::nn::TransformerEncoderLayer(
      torch::nn::TransformerEncoderLayerOptions(width, heads).dim_feedforward(32).dropout(0)));
  net->push_back(torch::nn::Linear(width, classes));
  return net;
}

/// The update of both sides, in the same words.
void descend(std::span<float> value, std::span<const float> gradient) {
  for (std::size_t i = 0; i < value.size(); ++i)
    value[i] -= rate * gradient[i];
}

class plain_descent final : public nn::optimizer {
public:
  std::span<const std::string_view> state_names() const noexcept override { return {}; }
  void step(stream&, nn::parameter& what, std::span<tensor>, double, std::uint64_t,
            double) const override {
    descend(what.value.span<float>(), std::as_const(what.gradient).span<float>());
  }
};

struct data_set {
  batch parts;
  std::vector<std::pair<at::Tensor, at::Tensor>> theirs;
};

data_set make_data(int micro_batches) {
  torch::manual_seed(11);
  kernels::buffer_pool pool(kernels::make_cpu_device());
  data_set made;
  for (int m = 0; m < micro_batches; ++m) {
    const std::int64_t samples = 1 + m % 3;
    const auto x = torch::randn({length, samples, width});
    const auto y = torch::randint(classes, {length, samples}, at::kLong);
    auto ours = pool.allocate(dtype::float32, {length, samples, width});
    auto labels = pool.allocate(dtype::int64, {length, samples});
    std::copy_n(x.const_data_ptr<float>(), x.numel(), ours.data<float>());
    std::copy_n(y.const_data_ptr<std::int64_t>(), y.numel(), labels.data<std::int64_t>());
    made.parts.push_back({{ours}, {labels}, samples, samples * length});
    made.theirs.emplace_back(x, y);
  }
  return made;
}

using bytes_by_name = std::map<std::string, std::vector<float>>;

struct outcome {
  std::vector<double> losses;
  bytes_by_name gradients; ///< of the last step
  bytes_by_name weights;
};

using make_net = torch::nn::Sequential (*)();

outcome torch_alone(make_net make, const data_set& data, int steps) {
  at::set_num_threads(1); // as a stage has: another number adds in another order
  auto net = make();
  double valid = 0;
  for (const auto& part : data.parts)
    valid += static_cast<double>(part.valid_targets);
  outcome made;
  for (int step = 0; step < steps; ++step) {
    double loss = 0;
    net->zero_grad();
    for (const auto& [x, y] : data.theirs) {
      const auto sum = sum_loss(net->forward(x), y);
      loss += sum.item<double>();
      sum.backward(at::full_like(sum, 1.0 / valid));
    }
    made.losses.push_back(loss / valid);
    const at::NoGradGuard no_grad;
    for (auto& each : net->named_parameters()) {
      auto& value = each.value();
      const auto count = static_cast<std::size_t>(value.numel());
      const std::span gradient(value.grad().const_data_ptr<float>(), count);
      made.gradients["net." + each.key()].assign(gradient.begin(), gradient.end());
      const std::span mine(value.data_ptr<float>(), count);
      descend(mine, gradient);
      made.weights["net." + each.key()].assign(mine.begin(), mine.end());
    }
  }
  return made;
}

/// How the same is run in stages.
struct cut {
  const char* schedule;
  int stages;
  torch_settings::backward halves;
};

outcome piped(make_net make, const data_set& data, int steps, const cut& how) {
  outcome made;
  std::mutex guard;
  pipeline line({
    .plan = plan::make_plan(
      how.schedule,
      {.stages = how.stages, .micro_batches = static_cast<std::int32_t>(data.parts.size())}),
    .layers =
      [make, &how] {
        auto layers = kernels::torch_layers("net", make(), {.loss = sum_loss});
        if (how.halves == torch_settings::backward::split) {
          auto net = make();
          for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
            auto any = *(net->begin() + static_cast<std::ptrdiff_t>(i));
            layers[i] = kernels::make_torch_module(
              "net." + std::to_string(i), any.ptr(),
              [any](const kernels::torch_tensors& inputs) mutable {
                return kernels::torch_tensors{any.forward<at::Tensor>(inputs.at(0))};
              },
              {.halves = torch_settings::backward::split});
          }
        }
        return layers;
      },
    .optimizer = std::make_shared<const plain_descent>(),
    .events = {.gradients_ready =
                 [&](std::int32_t, nn::parameter_list parameters) {
                   const std::lock_guard lock(guard);
                   for (auto& each : parameters) {
                     const auto values = std::as_const(each.gradient).span<float>();
                     made.gradients[each.name].assign(values.begin(), values.end());
                   }
                 }},
  });
  for (int step = 0; step < steps; ++step)
    made.losses.push_back(line.step(data.parts).loss);
  const auto state = line.state();
  for (const auto& each : state->parameters) {
    const auto values = each.tensors[0].span<float>();
    made.weights[each.name].assign(values.begin(), values.end());
  }
  return made;
}

/// Losses, gradients and weights after three steps, whatever the cut.
void check_all_cuts(make_net make, const data_set& data, std::initializer_list<int> stage_counts) {
  const auto expected = torch_alone(make, data, 3);
  CHECK(expected.losses[2] < expected.losses[0]);
  using backward = torch_settings::backward;
  for (const char* schedule : {"1f1b", "zb-h1"})
    for (const int stages : stage_counts)
      for (const auto halves : {backward::by_size, backward::split}) {
        CAPTURE(schedule);
        CAPTURE(stages);
        const auto got = piped(make, data, 3, {schedule, stages, halves});
        for (std::size_t i = 0; i < 3; ++i)
          CHECK(got.losses[i] == doctest::Approx(expected.losses[i]).epsilon(1e-12));
        CHECK((got.gradients == expected.gradients));
        CHECK((got.weights == expected.weights));
      }
}

} // namespace

TEST_CASE("a transformer of four torch layers in stages equals LibTorch alone, byte for byte") {
  const auto data = make_data(4);
  REQUIRE(torch_alone(transformer, data, 1).gradients.size() == 4 * 12 + 2);
  check_all_cuts(transformer, data, {1, 2, 4});
}

namespace {

/// Autograd saves its weight itself, where Linear's backward needs a view of it.
struct scaling : torch::nn::Module {
  at::Tensor weight;

  scaling() { weight = register_parameter("weight", torch::randn({width})); }

  at::Tensor forward(const at::Tensor& x) { return x * weight; }
};

torch::nn::Sequential with_scaling() {
  torch::manual_seed(9);
  return torch::nn::Sequential(torch::nn::Linear(width, width), std::make_shared<scaling>(),
                               torch::nn::Linear(width, classes));
}

/// Each micro-batch with the versions that the plan says, each version a tensor of its own.
bytes_by_name stashed_alone(const plan::plan& plan, const data_set& data, int steps) {
  at::set_num_threads(1);
  std::vector<std::vector<kernels::torch_tensors>> versions(3); // by stage, version, parameter
  auto net = with_scaling();
  for (std::size_t stage = 0; stage < 3; ++stage)
    versions[stage].push_back((net->begin() + static_cast<int>(stage))->ptr()->parameters());
  for (int step = 0; step < steps; ++step) {
    for (auto& stage : versions)
      stage.erase(stage.begin(), stage.end() - 1);
    for (std::size_t m = 0; m < data.theirs.size(); ++m) {
      kernels::torch_tensors used;
      auto h = data.theirs[m].first;
      for (std::size_t stage = 0; stage < 3; ++stage) {
        const auto which = plan.by_rank[stage].forwards[m].version;
        const auto& weights = versions[stage].at(static_cast<std::size_t>(which));
        h = stage == 1 ? h * weights[0] : at::linear(h, weights[0], weights[1]);
        used.insert(used.end(), weights.begin(), weights.end());
      }
      const auto loss = sum_loss(h, data.theirs[m].second);
      const auto valid = static_cast<double>(data.parts[m].valid_targets);
      const auto gradients = torch::autograd::grad({loss}, used, {at::full_like(loss, 1 / valid)});
      auto gradient = gradients.begin();
      for (auto& stage : versions) {
        kernels::torch_tensors next;
        for (const auto& each : stage.back()) {
          auto value = each.detach().clone();
          const auto count = static_cast<std::size_t>(value.numel());
          descend({value.data_ptr<float>(), count}, {(gradient++)->const_data_ptr<float>(), count});
          next.push_back(value.set_requires_grad(true));
        }
        stage.push_back(std::move(next));
      }
    }
  }
  bytes_by_name made;
  for (std::size_t stage = 0; stage < 3; ++stage)
    for (std::size_t i = 0; i < versions[stage].back().size(); ++i) {
      const auto& value = versions[stage].back()[i];
      const auto* first = value.const_data_ptr<float>();
      made["net." + std::to_string(stage) + (i == 0 ? ".weight" : ".bias")].assign(
        first, first + value.numel());
    }
  return made;
}

} // namespace

TEST_CASE("under weight stashing torch modules compute with the version of each task") {
  const auto data = make_data(5);
  const auto plan = plan::make_plan("pipedream", {.stages = 3, .micro_batches = 5});
  REQUIRE(plan.by_rank[1].forwards[4].version < 4); // behind, by what is in flight
  CHECK((piped(with_scaling, data, 3, {"pipedream", 3, torch_settings::backward::by_size}).weights
         == stashed_alone(plan, data, 3)));
}

namespace {

/// What has come in so far, summed up in a buffer, which is what it gives: another value each time.
struct running_sum : torch::nn::Module {
  at::Tensor sum;

  running_sum() { sum = register_buffer("sum", torch::zeros({length, 1, width})); }

  at::Tensor forward(const at::Tensor& x) { return sum.add_(x.detach().narrow(1, 0, 1)); }
};

torch::nn::Sequential with_views() {
  torch::manual_seed(5);
  const auto turned = [](const at::Tensor& x) { return x.transpose(0, 1); };
  return torch::nn::Sequential(std::make_shared<running_sum>(), torch::nn::Linear(width, width),
                               torch::nn::Functional([](const at::Tensor& x) { return x; }),
                               torch::nn::Functional(turned), torch::nn::Linear(width, width),
                               torch::nn::Functional(turned), torch::nn::Linear(width, classes));
}

} // namespace

TEST_CASE("torch modules that give their input, a view of it or a buffer equal LibTorch alone") {
  const auto data = make_data(1); // of one sample each, for the buffer's shape
  data_set all;
  for (int m = 0; m < 4; ++m) {
    all.parts.push_back(data.parts[0]);
    all.theirs.push_back(data.theirs[0]);
  }
  check_all_cuts(with_views, all, {1, 2, 3, 7});
}

namespace {

/// tanh(x W^T + b), by TorchScript or by torch::nn, with the same first weights.
nn::module_ptr bent(bool scripted, const std::string& name, const std::string& script) {
  torch::manual_seed(3);
  const torch::nn::Linear like(width, width);
  if (!scripted)
    return kernels::make_torch_module(
      name, like.ptr(),
      [like](const kernels::torch_tensors& inputs) {
        return kernels::torch_tensors{
          torch::tanh(torch::matmul(inputs.at(0), like->weight.t()) + like->bias)};
      },
      {});
  torch::jit::Module module("Bent");
  module.register_parameter("weight", like->weight.detach().clone().requires_grad_(), false);
  module.register_parameter("bias", like->bias.detach().clone().requires_grad_(), false);
  module.define(script);
  return kernels::make_scripted_module(name, module);
}

constexpr auto bent_script = "def forward(self, x):\n"
                             "  return torch.tanh(torch.matmul(x, self.weight.t()) + self.bias)\n";

pipeline line_of(bool scripted, int stages, const std::string& script = bent_script) {
  return pipeline({.plan = plan::make_plan("zb-h1", {.stages = stages, .micro_batches = 4}),
                   .layers =
                     [=] {
                       std::vector<nn::module_ptr> layers;
                       layers.push_back(bent(scripted, "first", script));
                       layers.push_back(bent(scripted, "second", script));
                       torch::manual_seed(5);
                       layers.push_back(kernels::make_torch_module(
                         "last", torch::nn::Linear(width, classes), {.loss = sum_loss}));
                       return layers;
                     },
                   .optimizer = std::make_shared<const plain_descent>()});
}

} // namespace

TEST_CASE("a scripted module in a stage equals the same one of torch::nn to 1e-6") {
  // Not to the byte: from its second run on TorchScript differentiates by formulas of its own.
  const auto data = make_data(4);
  for (const int stages : {1, 2, 3}) {
    CAPTURE(stages);
    auto scripted = line_of(true, stages);
    auto plain = line_of(false, stages);
    const auto first = scripted.step(data.parts).loss;
    CHECK(first == doctest::Approx(plain.step(data.parts).loss).epsilon(1e-6));
    const auto second = scripted.step(data.parts).loss;
    CHECK(second < first);
    CHECK(second == doctest::Approx(plain.step(data.parts).loss).epsilon(1e-6));
    const auto ours = scripted.state();
    const auto theirs = plain.state();
    REQUIRE(ours->parameters.size() == theirs->parameters.size());
    for (std::size_t i = 0; i < ours->parameters.size(); ++i) {
      CHECK(ours->parameters[i].name == theirs->parameters[i].name);
      CHECK(std::ranges::equal(
        ours->parameters[i].tensors[0].span<float>(),
        theirs->parameters[i].tensors[0].span<float>(),
        [](float a, float b) { return std::abs(a - b) <= 1e-6f * std::max(1.0f, std::abs(b)); }));
    }
  }
}

TEST_CASE("what a scripted module gives must be tensors, and the error names it") {
  auto line = line_of(true, 1, "def forward(self, x):\n  return 3\n");
  CHECK_THROWS_WITH_AS(line.step(make_data(4).parts),
                       doctest::Contains("first: gives a Int, where a tensor"), pipeline_error);
}
