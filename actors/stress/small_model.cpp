#include "actors/stress/small_model.hpp"

#include <random>

#include "actors/stress/serial_run.hpp"
#include "kernels/nn/gpt.hpp"
#include "kernels/nn/mlp.hpp"

namespace sluice::stress {

namespace {

constexpr std::int64_t features = 5;
constexpr std::int64_t classes = 3;
constexpr std::int64_t vocabulary = 11;
constexpr std::int64_t length = 3;

} // namespace

std::vector<kernels::nn::module_ptr> small_model::make() const {
  if (of == kind::mlp)
    return kernels::nn::make_mlp(
      {.features = features, .width = features, .layers = layers - 1, .classes = classes});
  return kernels::nn::make_gpt({.vocabulary = vocabulary,
                                .layers = (layers - 2) / 2,
                                .width = 4,
                                .heads = 2,
                                .length = length,
                                .dropout = 0.1});
}

actors::batch small_model::batch(std::uint64_t seed, std::span<const std::int64_t> samples) const {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(n));
  };
  actors::batch result;
  for (const auto count : samples) {
    kernels::tensor inputs;
    kernels::tensor targets;
    std::int64_t valid = count;
    if (of == kind::mlp) {
      inputs = pool.allocate(kernels::dtype::float32, {count, features});
      targets = pool.allocate(kernels::dtype::int32, {count});
      for (auto& each : inputs.span<float>())
        each = static_cast<float>(below(2000) - 1000) / 700;
      for (auto& each : targets.span<std::int32_t>())
        each = below(classes);
    } else {
      inputs = pool.allocate(kernels::dtype::int32, {count, length});
      targets = pool.allocate(kernels::dtype::int32, {count, length});
      valid = 0;
      for (auto& each : inputs.span<std::int32_t>())
        each = below(vocabulary);
      for (auto& each : targets.span<std::int32_t>()) {
        each = below(5) == 0 ? -1 : below(vocabulary);
        valid += each >= 0 ? 1 : 0;
      }
    }
    result.push_back({{std::move(inputs)}, {std::move(targets)}, count, valid});
  }
  return result;
}

std::shared_ptr<const kernels::nn::optimizer> small_optimizer() {
  return keeping_gradients(kernels::nn::make_adamw());
}

} // namespace sluice::stress
