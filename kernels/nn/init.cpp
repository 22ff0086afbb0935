#include "kernels/nn/init.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/ops/bfloat16.hpp"
#include "kernels/ops/random.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::nn {

namespace {

constexpr std::uint32_t initial_values = 0x1000; // apart from every layer's operations

// Uniform in (0, 1): never 0, so that its logarithm is finite.
double uniform(std::uint32_t word) {
  return (static_cast<double>(word) + 0.5) / 4294967296.0;
}

template <class T>
void fill_normal(std::span<T> values, double deviation, const ops::random_key& key) {
  std::array<std::uint32_t, ops::random_group> words;
  for (std::size_t at = 0; at < values.size(); at += words.size()) {
    ops::random_words(key, 0, at, words);
    for (std::size_t i = 0; i < words.size(); i += 2) {
      const double radius = deviation * std::sqrt(-2 * std::log(uniform(words[i])));
      const double angle = 2 * std::numbers::pi * uniform(words[i + 1]);
      if (at + i < values.size())
        values[at + i] = static_cast<T>(radius * std::cos(angle));
      if (at + i + 1 < values.size())
        values[at + i + 1] = static_cast<T>(radius * std::sin(angle));
    }
  }
}

} // namespace

void fill_initial(tensor& value, initial_value how, std::uint64_t seed, std::string_view name) {
  ops::with_float(accumulation_type(value.type()), "initial values", [&]<class T>(T) {
    const bool here = value.type() == dtype_of<T> && value.where()->is_host();
    std::vector<T> staged(here ? 0 : static_cast<std::size_t>(value.elements()));
    const auto elements = here ? value.span<T>() : std::span<T>(staged);
    switch (how.what) {
    case initial_value::kind::zeros:
      std::ranges::fill(elements, T{0});
      break;
    case initial_value::kind::ones:
      std::ranges::fill(elements, T{1});
      break;
    case initial_value::kind::normal:
      fill_normal(elements, how.deviation, {seed, 0, ops::hash_name(name), initial_values});
      break;
    }
    if (value.type() != dtype_of<T>) {
      std::vector<bfloat16> brief(staged.size());
      std::ranges::transform(staged, brief.begin(), [](T x) { return ops::narrow(float(x)); });
      value.where()->upload(value.bytes_span().data(), brief.data(), value.bytes());
    } else if (!here) {
      value.where()->upload(value.bytes_span().data(), staged.data(), value.bytes());
    }
  });
}

} // namespace sluice::kernels::nn
