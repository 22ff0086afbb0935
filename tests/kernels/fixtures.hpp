#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::test {

/// A stream on the processor; buffers that come back are poisoned with NaN from the start, so
/// that every test also finds a use after release or before writing.
inline stream make_stream(int threads = 1) {
  stream made(make_cpu_device(), threads);
  made.pool().poison_released(true);
  return made;
}

/// Uniform in [-scale, scale), the same on every machine.
inline tensor random_tensor(stream& on, dtype type, const shape& extents, unsigned seed,
                            double scale = 1) {
  auto made = on.allocate(type, extents);
  std::mt19937 bits(seed);
  const auto next = [&] { return scale * (bits() / 2147483648.0 - 1); };
  if (type == dtype::float64)
    for (auto& element : made.span<double>())
      element = next();
  else
    for (auto& element : made.span<float>())
      element = static_cast<float>(next());
  return made;
}

/// Uniform in [0, below).
inline tensor random_ids(stream& on, const shape& extents, unsigned seed, std::int32_t below) {
  auto made = on.allocate(dtype::int32, extents);
  std::mt19937 bits(seed);
  for (auto& element : made.span<std::int32_t>())
    element = static_cast<std::int32_t>(bits() % static_cast<std::uint32_t>(below));
  return made;
}

inline tensor copy(stream& on, const tensor& of) {
  auto made = on.allocate(of.type(), of.shape());
  std::memcpy(made.bytes_span().data(), of.bytes_span().data(), of.bytes());
  return made;
}

inline double element(const tensor& of, std::int64_t i) {
  return of.type() == dtype::float64 ? of.data<double>()[i] : of.data<float>()[i];
}

inline std::vector<double> values(const tensor& of) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < of.elements(); ++i)
    all.push_back(element(of, i));
  return all;
}

/// Whether all bytes are the same.
inline bool same_bits(const tensor& a, const tensor& b) {
  return a.type() == b.type() && a.shape() == b.shape()
      && std::memcmp(a.bytes_span().data(), b.bytes_span().data(), a.bytes()) == 0;
}

/// Whether |a - b| <= absolute + relative |b| for each element.
inline bool close(const std::vector<double>& a, const std::vector<double>& b, double absolute,
                  double relative) {
  if (a.size() != b.size())
    return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= absolute + relative * std::abs(b[i]))) {
      MESSAGE("element ", i, ": ", a[i], " against ", b[i]);
      return false;
    }
  return true;
}

template <class... Tensors>
tensor_list list(Tensors... tensors) {
  tensor_list made;
  (made.push_back(std::move(tensors)), ...);
  return made;
}

/// The gradients of all parameters, copied.
inline std::vector<tensor> gradients_of(stream& on, nn::stage_module& module) {
  std::vector<tensor> all;
  for (auto& owned : module.parameters())
    all.push_back(copy(on, owned.gradient));
  return all;
}

inline void zero_gradients(nn::stage_module& module) {
  for (auto& owned : module.parameters())
    std::memset(owned.gradient.bytes_span().data(), 0, owned.gradient.bytes());
}

inline bool same_bits(const std::vector<tensor>& a, const std::vector<tensor>& b) {
  if (a.size() != b.size())
    return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_bits(a[i], b[i]))
      return false;
  return true;
}

} // namespace sluice::kernels::test
