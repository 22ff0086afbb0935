#pragma once

#include <array>
#include <bit>
#include <functional>

#include "kernels/copy.hpp"
#include "kernels/cuda/device.hpp"
#include "tests/kernels/fixtures.hpp"

#ifdef SLUICE_ON_GPU
#include "tests/gpu/no_emulation.hpp"
#else
#include "tests/emulation/fixtures.hpp"
#endif

namespace sluice::kernels::test {

/// A tensor in another type, on the processor; bfloat16 is rounded as the kernels round it.
inline tensor converted(stream& host, const tensor& from, dtype to) {
  auto made = host.allocate(to, from.shape());
  for (std::int64_t i = 0; i < from.elements(); ++i) {
    const auto value = static_cast<float>(element(from, i));
    if (to == dtype::float64)
      made.data<double>()[i] = element(from, i);
    else if (to == dtype::float32)
      made.data<float>()[i] = value;
    else {
      auto bits = std::bit_cast<std::uint32_t>(value);
      bits += 0x7FFFU + (bits >> 16U & 1U);
      const auto upper = static_cast<std::uint16_t>(bits >> 16U);
      std::memcpy(made.bytes_span().data() + 2 * i, &upper, 2);
    }
  }
  return made;
}

/// The elements of a floating-point tensor of any type, as float64 on the processor.
inline tensor widened(stream& host, const tensor& from) {
  if (from.type() != dtype::bfloat16)
    return converted(host, from, dtype::float64);
  auto made = host.allocate(dtype::float64, from.shape());
  for (std::int64_t i = 0; i < from.elements(); ++i) {
    std::uint16_t upper = 0;
    std::memcpy(&upper, from.bytes_span().data() + 2 * i, 2);
    made.data<double>()[i] = std::bit_cast<float>(std::uint32_t{upper} << 16U);
  }
  return made;
}

/// An operation to be tried: maps operands to results. Runs in float64 on the processor, where
/// operands are what the device's type keeps of them, and on a device.
using tried = std::function<tensor_list(stream& on, tensor_list operands)>;

struct tolerance {
  double absolute;
  double relative;
};

/// An emulated GPU, in each order of lanes, or a real one, three times: the bits must be the same.
/// bfloat16 is tried on the processor too.
class gpu_trial {
public:
  explicit gpu_trial(dtype type) : type_(type), host_(make_stream()) {}

  /// operands: float32 or int32 tensors of host().
  void run(const tensor_list& operands, const tried& body, tolerance within) {
    tensor_list wide;
    tensor_list given;
    for (const auto& each : operands) {
      const bool is_float = each.type() == dtype::float32;
      given.push_back(is_float ? converted(host_, each, type_) : each);
      wide.push_back(is_float ? widened(host_, given.back()) : copy(host_, each));
    }
    const auto expected = body(host_, std::move(wide));
    if (type_ == dtype::bfloat16) { // on the processor too: no GPU's test is needed for float32
      INFO("on the processor");
      tensor_list operands;
      for (const auto& each : given)
        operands.push_back(copied(host_, each));
      check_close(body(host_, std::move(operands)), expected, within);
    }
    tensor_list first;
    for (const auto order : {emulation::lane_order::forward, emulation::lane_order::reverse,
                             emulation::lane_order::random}) {
      emulation::set_lane_order(order, 3);
      auto got = on_device(given, body);
      if (first.empty())
        first = got;
      INFO("in order of lanes ", static_cast<int>(order));
      check_close(got, expected, within);
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(same_bits(got[i], first[i]));
    }
    CHECK(emulation::violations() == 0);
  }

  stream& host() { return host_; }

private:
  void check_close(const tensor_list& got, const tensor_list& expected, tolerance within) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      INFO("result ", i);
      CHECK(close(values(widened(host_, got[i])), values(expected[i]), within.absolute,
                  within.relative));
    }
  }

  tensor_list on_device(const tensor_list& given, const tried& body) {
    stream gpu(std::make_shared<cuda::device>(0));
    gpu.pool().poison_released(true);
    tensor_list operands;
    for (const auto& each : given)
      operands.push_back(copied(gpu, each));
    tensor_list results;
    for (const auto& each : body(gpu, std::move(operands)))
      results.push_back(copied(host_, each));
    return results;
  }

  emulation::test::session session_;
  dtype type_;
  stream host_;
};

} // namespace sluice::kernels::test
