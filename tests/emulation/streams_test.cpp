#include <doctest/doctest.h>

#include <atomic>
#include <cmath>

#include "tests/emulation/fixtures.hpp"
#include "tests/emulation/sample_kernels.hpp"

using namespace sluice::emulation;
using namespace sluice::emulation::test;

TEST_CASE("a chain of copies and kernels gives the same in every schedule") {
  schedule which{};
  SUBCASE("eager") {
    which = schedule::eager;
  }
  SUBCASE("random") {
    which = schedule::random;
  }
  SUBCASE("lazy") {
    which = schedule::lazy;
  }
  const session run(which, 7);
  const cuda_stream first;
  const cuda_stream second;
  const cuda_event made;
  const floats x(100, 3);
  const floats y(100);
  must(x.upload(first));
  must(scale(y.device(), x.device(), 100, first));
  must(cudaEventRecord(made, first));
  must(cudaStreamWaitEvent(second, made, 0));
  must(scale(x.device(), y.device(), 100, second));
  CHECK(x.read(second) == std::vector<float>(100, 15));
  CHECK(violations() == 0);
}

TEST_CASE("a missing wait for an event shows when nothing runs before it must") {
  const session run(schedule::lazy);
  const cuda_stream first;
  const cuda_stream second;
  const floats x(8, 3);
  const floats y(8);
  must(x.upload(first));
  must(scale(y.device(), x.device(), 8, second));
  CHECK(std::isnan(y.read(second)[0])); // device memory begins as NaN
  must(first.synchronize());
}

TEST_CASE("a pinned buffer that is used again too early shows when copies are late") {
  const session run(schedule::lazy);
  const cuda_stream on;
  const floats x(8, 3);
  must(x.upload(on));
  x.host()[0] = 99;
  CHECK(x.read(on)[0] == 99);
}

TEST_CASE("a host function runs in the order of its stream, and may call nothing") {
  schedule which{};
  SUBCASE("eager") {
    which = schedule::eager;
  }
  SUBCASE("lazy, where no host waits for it") {
    which = schedule::lazy;
  }
  const session run(which);
  const cuda_stream on;
  const floats x(4, 1);
  std::atomic<int> called = 0;
  must(x.upload(on));
  must(cudaLaunchHostFunc(
    on,
    [](void* count) {
      cudaDeviceSynchronize();
      ++*static_cast<std::atomic<int>*>(count);
    },
    &called));
  while (called == 0) {
  }
  CHECK(violations() == 1);
  CHECK(last_violation() == "cudaDeviceSynchronize is called from a host function");
}

TEST_CASE("what CUDA would take amiss or do otherwise than meant is a violation") {
  const session run;
  const cuda_stream on;
  const floats x(8, 3);
  std::vector<float> pageable(8);
  std::string expected;
  SUBCASE("a copy out of bounds") {
    CHECK(cudaMemcpyAsync(x.device(), x.host(), 36, cudaMemcpyHostToDevice, on) != cudaSuccess);
    expected = "a copy out of bounds";
  }
  SUBCASE("a copy from pageable memory, which is not asynchronous") {
    CHECK(cudaMemcpyAsync(x.device(), pageable.data(), 32, cudaMemcpyHostToDevice, on)
          != cudaSuccess);
    expected = "an asynchronous copy with memory that is not pinned";
  }
  SUBCASE("a host pointer as a kernel's argument") {
    CHECK(scale(pageable.data(), x.device(), 8, on) != cudaSuccess);
    expected = "kernel scale_kernel: pointer argument 0 is not the device's memory";
  }
  SUBCASE("the default stream") {
    CHECK(cudaMemcpyAsync(x.device(), x.host(), 32, cudaMemcpyHostToDevice, nullptr)
          != cudaSuccess);
    expected = "a copy of 32 bytes on the default stream, which waits for all others";
  }
  SUBCASE("a wait for what was never recorded") {
    const cuda_event never;
    CHECK(cudaStreamWaitEvent(on, never, 0) == cudaSuccess);
    expected = "a wait for an event that was never recorded waits for nothing";
  }
  CHECK(violations() == 1);
  CHECK(last_violation() == expected);
}

TEST_CASE("streams that wait for each other in turns are not taken for a cycle") {
  const session run(schedule::lazy);
  const cuda_stream first;
  const cuda_stream second;
  const cuda_event a;
  const cuda_event b;
  must(cudaEventRecord(a, first));
  must(cudaStreamWaitEvent(second, a, 0));
  must(cudaEventRecord(b, second));
  must(cudaStreamWaitEvent(first, b, 0));
  must(first.synchronize());
  CHECK(first_deadlock().empty());
}
