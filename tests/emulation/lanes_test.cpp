#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "tests/emulation/fixtures.hpp"
#include "tests/emulation/sample_kernels.hpp"

using namespace sluice::emulation;
using namespace sluice::emulation::test;

namespace {

constexpr std::array orders{lane_order::forward, lane_order::reverse, lane_order::random};

/// What a kernel leaves in `y` under each order of lanes.
template <class Kernel>
std::vector<std::vector<float>> in_all_orders(std::size_t count, Kernel kernel) {
  std::vector<std::vector<float>> results;
  for (const auto order : orders) {
    set_lane_order(order, 5);
    const cuda_stream on;
    const floats x(count);
    const floats y(count);
    std::iota(x.host(), x.host() + count, 1.0F);
    must(x.upload(on));
    must(kernel(y.device(), x.device(), on));
    results.push_back(y.read(on));
  }
  return results;
}

bool all_equal(const std::vector<std::vector<float>>& results) {
  return std::ranges::all_of(results, [&](const auto& each) { return each == results.front(); });
}

} // namespace

TEST_CASE("a sum through shared memory and shuffles is the same in all orders of lanes") {
  const session run;
  const auto results = in_all_orders(
    100, [](float* y, const float* x, cudaStream_t on) { return sum(y, x, 100, on); });
  for (const auto& each : results)
    CHECK(each[0] == 5050);
  CHECK(violations() == 0);
}

TEST_CASE("a missing barrier shows, for not all orders of lanes agree") {
  const session run;
  CHECK_FALSE(all_equal(in_all_orders(64, without_barrier)));
}

TEST_CASE("blocks that race show, for not all orders agree") {
  const session run;
  CHECK_FALSE(all_equal(
    in_all_orders(64, [](float* y, const float*, cudaStream_t on) { return block_race(y, on); })));
}

TEST_CASE("shared memory that nobody wrote is NaN") {
  const session run;
  const cuda_stream on;
  const floats y(32);
  must(uninitialised_shared(y.device(), on));
  const auto result = y.read(on);
  CHECK(result[15] == 1);
  CHECK(std::isnan(result[16]));
}

TEST_CASE("lanes that wait for each other break the device, with kernel and threads named") {
  const session run;
  const cuda_stream on;
  const floats y(32);
  must(divergent_barrier(y.device(), on));
  CHECK(on.synchronize() == cudaErrorLaunchFailure);
  CHECK(last_violation()
        == "kernel divergent_barrier_kernel, block 0: lanes of a block wait for each other: 16 at "
           "__syncthreads (first: thread 16); 16 in a warp operation (first: thread 0);");
}
