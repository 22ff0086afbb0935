// What every consumer project builds: two stages of a small network, trained for a few steps.

#include <cstdio>

#include <sluice/pipeline.hpp>

static_assert(SLUICE_VERSION >= 100, "the version macros are there");

/// Four numbers in, one of four classes out: mlp_layers.cpp, torch_layers.cpp.
std::vector<sluice::nn::module_ptr> make_layers();

int main() {
  sluice::pipeline line({
    .plan = sluice::plan::make_plan("1f1b", {.stages = 2, .micro_batches = 4}),
    .layers = make_layers,
    .learning_rate = [](std::uint64_t) { return 0.05; },
  });
  sluice::kernels::buffer_pool pool(sluice::kernels::make_cpu_device());
  sluice::batch data;
  for (int m = 0; m < 4; ++m) {
    auto features = pool.zeros(sluice::dtype::float32, {1, 4});
    features.span<float>()[m] = 1;
    auto label = pool.zeros(sluice::dtype::int32, {1});
    label.span<std::int32_t>()[0] = m;
    data.push_back({{features}, {label}, 1, 1});
  }
  const double first = line.step(data).loss;
  double last = first;
  for (int i = 0; i < 20; ++i)
    last = line.step(data).loss;
  std::printf("sluice %s: loss %.3f -> %.3f\n", SLUICE_VERSION_STRING, first, last);
  return last < first / 2 ? 0 : 1;
}
