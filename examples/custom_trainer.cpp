// A trainer that was there before Sluice: its own loop, its own module, its own optimizer, its own
// idea of when to stop. What changes is one line, where the step used to be.
//
//   angle --> [ waves ] --> [ mix ] --> [ distance ] --> loss
//              stage 0       stage 1     stage 1
//
// It fits a curve by a sum of waves whose frequencies it learns too.

#include <cmath>
#include <cstdio>
#include <numbers>
#include <random>

#include <sluice/pipeline.hpp>

namespace {

namespace nn = sluice::nn;
using sluice::stream;
using sluice::tensor_list;

constexpr std::int64_t waves_count = 8;

/// y[n, k] = sin(frequency[k] x[n] + phase[k]). Shapes: [n] -> [n, k].
struct waves {
  nn::parameter frequency{.name = "frequency"};
  nn::parameter phase{.name = "phase"};

  std::vector<nn::parameter*> parameters() { return {&frequency, &phase}; }

  void initialise(stream& on, std::uint64_t seed) {
    set_up(frequency, on, seed, {.shape = {waves_count}, .deviation = 2});
    set_up(phase, on, seed, {.shape = {waves_count}, .deviation = 1});
  }

  float inner(float x, std::int64_t k) const {
    return frequency.value.data<float>()[k] * x + phase.value.data<float>()[k];
  }

  tensor_list forward(stream& on, const nn::micro_batch&, tensor_list inputs,
                      nn::activation& save) {
    const auto& x = std::as_const(inputs[0]);
    auto y = on.allocate(sluice::dtype::float32, {x.elements(), waves_count});
    for (std::int64_t n = 0; n < x.elements(); ++n)
      for (std::int64_t k = 0; k < waves_count; ++k)
        y.data<float>()[n * waves_count + k] = std::sin(inner(x.data<float>()[n], k));
    save.saved = {inputs[0]};
    return {y};
  }

  /// The angles are data: their gradient is absent.
  tensor_list backward(stream&, const nn::micro_batch&, tensor_list gradients,
                       nn::activation& saved) {
    const auto x = std::as_const(saved.saved[0]).span<float>();
    const auto dy = std::as_const(gradients[0]).span<float>();
    for (std::size_t n = 0; n < x.size(); ++n)
      for (std::size_t k = 0; k < waves_count; ++k) {
        const auto slope = dy[n * waves_count + k] * std::cos(inner(x[n], static_cast<int>(k)));
        frequency.gradient.data<float>()[k] += slope * x[n];
        phase.gradient.data<float>()[k] += slope;
      }
    return {{}};
  }
};

/// y[n] = sum over k of weight[k] x[n, k]. Its backward is in two halves, so that a schedule may
/// put the second one where it would wait.
struct mix {
  nn::parameter weight{.name = "weight"};

  std::vector<nn::parameter*> parameters() { return {&weight}; }

  void initialise(stream& on, std::uint64_t seed) {
    set_up(weight, on, seed, {.shape = {waves_count}, .deviation = 0.3});
  }

  tensor_list forward(stream& on, const nn::micro_batch&, tensor_list inputs,
                      nn::activation& save) {
    const auto rows = inputs[0].shape()[0];
    auto y = on.zeros(sluice::dtype::float32, {rows});
    for (std::int64_t i = 0; i < rows * waves_count; ++i)
      y.data<float>()[i / waves_count] +=
        weight.value.data<float>()[i % waves_count] * std::as_const(inputs[0]).data<float>()[i];
    save.saved = {inputs[0]};
    return {y};
  }

  tensor_list backward_input(stream& on, const nn::micro_batch&, tensor_list gradients,
                             nn::activation& saved) {
    auto dx = on.allocate(sluice::dtype::float32, saved.saved[0].shape());
    for (std::int64_t i = 0; i < dx.elements(); ++i)
      dx.data<float>()[i] = weight.value.data<float>()[i % waves_count]
                          * std::as_const(gradients[0]).data<float>()[i / waves_count];
    saved.saved.push_back(gradients[0]);
    return {dx};
  }

  void backward_weight(stream&, const nn::micro_batch&, nn::activation& saved) {
    const auto x = std::as_const(saved.saved[0]).span<float>();
    const auto dy = std::as_const(saved.saved[1]).span<float>();
    for (std::size_t i = 0; i < x.size(); ++i)
      weight.gradient.data<float>()[i % waves_count] += dy[i / waves_count] * x[i];
    saved.saved.clear();
  }
};

/// Half the squared distance to the target, summed: takes two tensors by name and gives the loss.
struct distance {
  nn::module_ports names{{{"curve"}, {"target"}}, {{.name = "loss", .loss = true}}};

  const nn::module_ports& ports() const { return names; }

  tensor_list forward(stream& on, const nn::micro_batch&, tensor_list inputs,
                      nn::activation& save) {
    auto off = on.allocate(sluice::dtype::float32, inputs[0].shape());
    auto loss = on.zeros(sluice::dtype::float64, {});
    for (std::int64_t n = 0; n < off.elements(); ++n) {
      off.data<float>()[n] =
        std::as_const(inputs[0]).data<float>()[n] - std::as_const(inputs[1]).data<float>()[n];
      loss.data<double>()[0] += 0.5 * std::pow(static_cast<double>(off.data<float>()[n]), 2);
    }
    save.saved = {off};
    return {loss};
  }

  tensor_list backward(stream& on, const nn::micro_batch& which, tensor_list,
                       nn::activation& saved) {
    auto gradient = on.allocate(sluice::dtype::float32, saved.saved[0].shape());
    for (std::int64_t n = 0; n < gradient.elements(); ++n)
      gradient.data<float>()[n] =
        std::as_const(saved.saved[0]).data<float>()[n] * static_cast<float>(which.loss_scale);
    return {gradient, {}};
  }
};

/// Rprop without backtracking: each weight has a step of its own that grows while the gradient
/// keeps its sign and shrinks when it turns (Riedmiller and Braun, 1993).
class resilient final : public nn::optimizer {
public:
  std::span<const std::string_view> state_names() const noexcept override { return names_; }

  void step(stream&, nn::parameter& what, std::span<sluice::tensor> state, double rate,
            std::uint64_t number, double scale) const override {
    for (std::int64_t i = 0; i < what.value.elements(); ++i) {
      const auto gradient = what.gradient.data<float>()[i] * static_cast<float>(scale);
      auto& size = state[0].data<float>()[i];
      auto& before = state[1].data<float>()[i];
      if (number == 1)
        size = static_cast<float>(rate);
      else if (gradient * before != 0)
        size *= gradient * before > 0 ? 1.2f : 0.5f;
      what.value.data<float>()[i] -= std::copysign(gradient == 0 ? 0 : size, gradient);
      before = gradient;
    }
  }

private:
  static constexpr std::array<std::string_view, 2> names_{"step_size", "gradient_before"};
};

float curve(float x) {
  return std::sin(2 * x) + 0.5f * std::cos(5 * x);
}

} // namespace

int main() {
  constexpr int micro_batches = 4;
  constexpr std::int64_t rows = 32;
  sluice::pipeline line({
    .plan = sluice::plan::make_plan("zb-h1", {.stages = 2, .micro_batches = micro_batches}),
    .layers =
      [] {
        std::vector<nn::module_ptr> layers;
        layers.push_back(nn::make_module("waves", waves{}));
        layers.push_back(nn::make_module("mix", mix{}));
        layers.push_back(nn::make_module("distance", distance{}));
        return layers;
      },
    .values = {.inputs = {"curve"}, .targets = {"target"}},
    .cut = {1, 2},
    .optimizer = std::make_shared<const resilient>(),
    .learning_rate = [](std::uint64_t) { return 0.01; },
    .seed = 3,
  });

  sluice::kernels::buffer_pool pool(sluice::kernels::make_cpu_device());
  sluice::batch data;
  for (int m = 0; m < micro_batches; ++m) {
    auto x = pool.allocate(sluice::dtype::float32, {rows});
    auto y = pool.allocate(sluice::dtype::float32, {rows});
    for (std::int64_t n = 0; n < rows; ++n) {
      const auto at = static_cast<float>(n * micro_batches + m) / (rows * micro_batches);
      x.data<float>()[n] = (2 * at - 1) * std::numbers::pi_v<float>;
      y.data<float>()[n] = curve(x.data<float>()[n]);
    }
    data.push_back({{x}, {y}, rows, rows});
  }

  // The loop as it was: until the fit is good, or the loss stops to fall.
  double best = 1e9;
  int patience = 0;
  int step = 0;
  for (; step < 2000 && patience < 100 && best > 1e-4; ++step) {
    const auto report = line.step(data); // it used to say: forward(); backward(); update();
    patience = report.loss < 0.999 * best ? 0 : patience + 1;
    best = std::min(best, report.loss);
    if (step % 100 == 0)
      std::printf("step %d: loss %.5f\n", step, report.loss);
  }
  std::printf("stopped after %d steps: best loss %.5f\n", step, best);
  return best < 0.02 ? 0 : 1;
}
