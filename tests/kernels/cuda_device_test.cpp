#include <atomic>
#include <thread>

#include "kernels/nn/mlp.hpp"
#include "kernels/nn/profile.hpp"
#include "kernels/ops/gelu.hpp"
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
