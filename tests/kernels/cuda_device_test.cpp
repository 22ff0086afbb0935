#include <atomic>
#include <thread>

#include <fmt/format.h>

#include "kernels/nn/mlp.hpp"
#include "kernels/nn/optimizer.hpp"
#include "kernels/nn/profile.hpp"
#include "kernels/ops/gelu.hpp"
#include "kernels/ops/linear.hpp"
#include "kernels/ops/sum_of_squares.hpp"
#include "tests/kernels/cuda_fixtures.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;
namespace emulation = sluice::emulation;

TEST_CASE("bytes go to a GPU and back, whatever the host does with them meanwhile") {
  emulation::schedule which{};
  SUBCASE("eager") {
    which = emulation::schedule::eager;
  }
  SUBCASE("random") {
    which = emulation::schedule::random;
  }
  SUBCASE("lazy") {
    which = emulation::schedule::lazy;
  }
  const emulation::test::session run(which, 3);
  auto host = make_stream();
  stream gpu(std::make_shared<cuda::device>(1));
  auto x = random_tensor(host, dtype::float32, {100}, 1);
  const auto before = values(x);
  const auto there = copied(gpu, x);
  auto other = gpu.allocate(dtype::float32, {100});
  copy(there, other);
  x.span<float>()[0] = 99; // upload() has taken its copy
  CHECK(values(copied(host, other)) == before);
  set_zero(other);
  CHECK(values(copied(host, other)) == std::vector<double>(100, 0));
  CHECK(emulation::violations() == 0);
}

TEST_CASE("a GPU tells when it is done, also when nobody waits") {
  emulation::schedule which{};
  SUBCASE("eager") {
    which = emulation::schedule::eager;
  }
  SUBCASE("lazy") {
    which = emulation::schedule::lazy;
  }
  const emulation::test::session run(which);
  cuda::device gpu(0);
  std::atomic<bool> done = false;
  gpu.when_done([&] { done = true; });
  while (!done)
    std::this_thread::yield();
  CHECK(emulation::violations() == 0);
}

TEST_CASE("tensors go from one GPU to another by way of the host") {
  const emulation::test::session run(emulation::schedule::lazy);
  auto host = make_stream();
  stream zero(std::make_shared<cuda::device>(0));
  stream one(std::make_shared<cuda::device>(1));
  const auto x = random_tensor(host, dtype::float32, {77}, 1);
  const auto there = copied(one, ops::gelu(zero, copied(zero, x)));
  CHECK(close(values(copied(host, there)), values(ops::gelu(host, x)), 1e-6, 1e-6));
}

TEST_CASE("an update of many parameters, and their global norm, take few launches") {
  const emulation::test::session run;
  stream gpu(std::make_shared<cuda::device>(0));
  std::vector<nn::parameter> parameters;
  for (int i = 0; i < 170; ++i)
    parameters.push_back({fmt::format("p{}", i), gpu.zeros(dtype::float32, {1 + i % 5}),
                          gpu.zeros(dtype::float32, {1 + i % 5}), i % 2 == 0});
  const auto adamw = nn::make_adamw();
  std::vector<std::vector<tensor>> states;
  std::vector<nn::stateful_parameter> all;
  std::vector<tensor> gradients;
  states.reserve(parameters.size());
  for (auto& each : parameters) {
    states.push_back(adamw->make_state(gpu, each));
    all.push_back({&each, states.back()});
    gradients.push_back(each.gradient);
  }
  const auto launches = [](auto act) {
    const auto before = emulation::launches_of("");
    act();
    return emulation::launches_of("") - before;
  };
  CHECK(launches([&] { adamw->step_all(gpu, all, 1e-3, 1, 1); }) == 3); // of 70 each
  CHECK(launches([&] { ops::sums_of_squares(gpu, gradients); }) == 4);  // two for 165
  CHECK(launches([&] { adamw->step_all(gpu, {}, 1e-3, 1, 1); }) == 0);
  CHECK(emulation::violations() == 0);
}

TEST_CASE(
  "a GELU is fused where cuBLASLt can, and where it cannot that is said once for each shape") {
  const emulation::test::session run;
  std::vector<std::string> said;
  stream gpu(
    std::make_shared<cuda::device>(0, [&](const std::string& what) { said.push_back(what); }));
  auto host = make_stream();
  const auto x = copied(gpu, random_tensor(host, dtype::float32, {5, 16}, 1));
  const auto weight = copied(gpu, random_tensor(host, dtype::float32, {24, 16}, 2));
  const auto bias = copied(gpu, random_tensor(host, dtype::float32, {24}, 3));
  const auto back = copied(gpu, random_tensor(host, dtype::float32, {16, 24}, 4));
  const auto both = [&] {
    auto [output, inner] = ops::linear_gelu(gpu, x, weight, bias);
    auto gradient = ops::linear_gelu_input_gradient(gpu, x, back, inner);
    return values(copied(host, gradient));
  };
  const auto before = emulation::launches_of("gelu");
  const auto fused = both();
  CHECK(emulation::launches_of("gelu") == before);
  CHECK(said.empty());

  emulation::set_fused_gelu(false);
  stream other(
    std::make_shared<cuda::device>(0, [&](const std::string& what) { said.push_back(what); }));
  std::swap(gpu, other);
  const auto apart = both();
  CHECK(both() == apart);
  CHECK(emulation::launches_of("gelu") == before + 4);
  CHECK(close(apart, fused, 1e-5, 1e-5));
  REQUIRE(said.size() == 2);
  CHECK(said[0]
        == "cuda:0: cuBLASLt has no product with a fused GELU that gives [5, 24] of F32: a kernel "
           "of its own does it");
  CHECK(said[1].find("GELU's gradient that gives [5, 24]") != std::string::npos);
  CHECK(emulation::violations() == 0);
}

TEST_CASE("a launch with a pointer into the host's memory in its table is caught") {
  const emulation::test::session run;
  stream gpu(std::make_shared<cuda::device>(0));
  auto host = make_stream();
  std::vector<tensor> mixed{gpu.zeros(dtype::float32, {4}), host.zeros(dtype::float32, {4})};
  CHECK_THROWS_AS(ops::sums_of_squares(gpu, mixed), std::runtime_error);
  CHECK(emulation::last_violation().find("pointer argument 1 is not the device's memory")
        != std::string::npos);
}

TEST_CASE("without a driver there are no GPUs, and it says why") {
  const emulation::test::session run;
  emulation::set_device_count(0);
  std::string why;
  CHECK(cuda::list(why).empty());
  CHECK(why
        == "CUDA driver version is insufficient for CUDA runtime version "
           "(cudaErrorInsufficientDriver)");
  CHECK_THROWS_WITH_AS(cuda::device(0), ("no GPU: " + why).c_str(), std::runtime_error);
  emulation::set_device_count(4);
  CHECK(cuda::list(why).size() == 4);
  CHECK_THROWS_WITH_AS(cuda::device(4), "no cuda:4: there are 4", std::runtime_error);
}

TEST_CASE("layers on a GPU are measured from an idle device to an idle device") {
  const emulation::test::session run(emulation::schedule::lazy, 4);
  const auto costs_on = [](std::shared_ptr<device> where) {
    auto host = make_stream();
    stream on(std::move(where));
    const auto layers = nn::make_mlp({.features = 4, .width = 8, .layers = 3, .classes = 3});
    for (const auto& layer : layers)
      layer->initialise(on, 1);
    const auto features = random_tensor(host, dtype::float32, {6, 4}, 1);
    const auto classes = host.zeros(dtype::int32, {6});
    return nn::profile_layers(on, layers, {copied(on, features), copied(on, classes)}, 2);
  };
  const auto expected = costs_on(make_cpu_device());
  const auto costs = costs_on(std::make_shared<cuda::device>(0));
  REQUIRE(costs.size() == expected.size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    CHECK(costs[i].name == expected[i].name);
    CHECK(costs[i].output_bytes == expected[i].output_bytes);
    CHECK(costs[i].parameter_bytes == expected[i].parameter_bytes);
    CHECK(costs[i].forward.count() > 0);
  }
  CHECK(emulation::violations() == 0);
}
