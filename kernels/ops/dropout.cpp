#include "kernels/ops/dropout.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/ops/bfloat16.hpp"
#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

namespace {

template <class T>
void drop(std::span<const T> from, std::span<T> to, std::int64_t samples,
          const dropout_mask& mask) {
  const auto scale = static_cast<T>(mask.scale());
  const auto threshold = mask.threshold();
  const auto per_sample = samples == 0 ? 0 : from.size() / static_cast<std::size_t>(samples);
  std::array<std::uint32_t, random_group * 4> words;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const auto begin = static_cast<std::size_t>(sample) * per_sample;
    for (std::size_t at = 0; at < per_sample; at += words.size()) {
      const auto count = std::min(words.size(), per_sample - at);
      random_words(mask.key, static_cast<std::uint64_t>(mask.first_sample + sample), at,
                   std::span(words).first(count));
      const T* x = from.data() + begin + at;
      T* y = to.data() + begin + at;
#pragma GCC ivdep // y is x itself or elsewhere
      for (std::size_t i = 0; i < count; ++i)
        y[i] = words[i] >= threshold ? x[i] * scale : T{0};
    }
  }
}

} // namespace

tensor dropout(stream& on, tensor values, const dropout_mask& mask) {
  if (!(mask.probability >= 0 && mask.probability < 1))
    throw std::invalid_argument(
      fmt::format("dropout: probability {} is not in [0, 1)", mask.probability));
  if (!mask.active())
    return values;
  if (by_float(on, values))
    return rounded(on, dropout(on, widened(on, values), mask));
  auto result = values.unique() ? values : on.allocate(values.type(), values.shape());
  const auto samples = values.shape().rank() == 0 ? 1 : values.shape()[0];
  if (auto* device = on.operations()) {
    device->dropout(values, result, samples, mask);
    return result;
  }
  with_float(values.type(), "dropout", [&]<class T>(T) {
    drop<T>(std::as_const(values).template span<T>(), result.template span<T>(), samples, mask);
  });
  return result;
}

} // namespace sluice::kernels::ops
