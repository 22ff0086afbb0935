#include "kernels/ops/embedding.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "kernels/ops/bfloat16.hpp"
#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

namespace {

void check(const tensor& ids, const tensor& tokens, const tensor& positions) {
  if (ids.shape().rank() != 2 || ids.type() != dtype::int32)
    throw std::invalid_argument(fmt::format("embedding: ids are {} of {}, expected two dimensions "
                                            "of I32",
                                            to_string(ids.shape()), name(ids.type())));
  if (ids.shape()[1] > positions.shape()[0])
    throw std::out_of_range(fmt::format("embedding: a sequence of {} in a model of length {}",
                                        ids.shape()[1], positions.shape()[0]));
  if (!ids.where()->is_host()) // there the kernel gives NaN for such an id
    return;
  const auto vocabulary = tokens.shape()[0];
  for (const auto id : ids.span<std::int32_t>())
    if (id < 0 || id >= vocabulary)
      throw std::out_of_range(
        fmt::format("embedding: id {} in a vocabulary of {}", id, vocabulary));
}

/// Only the rows that are wanted are widened.
void add_bfloat16_rows(const tensor& ids, const tensor& tokens, const tensor& positions,
                       tensor& output) {
  const auto columns = tokens.shape()[1];
  const auto indices = ids.span<std::int32_t>();
  for (std::int64_t i = 0; i < ids.elements(); ++i) {
    const auto* token = tokens.data<bfloat16>() + indices[i] * columns;
    const auto* position = positions.data<bfloat16>() + i % ids.shape()[1] * columns;
    auto* y = output.data<bfloat16>() + i * columns;
    for (std::int64_t j = 0; j < columns; ++j)
      y[j] = narrow(widen(token[j]) + widen(position[j]));
  }
}

} // namespace

tensor embedding(stream& on, const tensor& ids, const tensor& tokens, const tensor& positions) {
  check(ids, tokens, positions);
  const auto columns = tokens.shape()[1];
  const auto length = ids.shape()[1];
  auto output = on.allocate(tokens.type(), {ids.shape()[0], length, columns});
  if (auto* device = on.operations()) {
    device->embedding(ids, tokens, positions, output);
    return output;
  }
  if (by_float(on, tokens)) {
    add_bfloat16_rows(ids, tokens, positions, output);
    return output;
  }
  with_float(tokens.type(), "embedding", [&]<class T>(T) {
    const auto indices = ids.span<std::int32_t>();
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      const T* token = tokens.data<T>() + indices[i] * columns;
      const T* position = positions.data<T>() + i % length * columns;
      T* y = output.data<T>() + i * columns;
      for (std::int64_t j = 0; j < columns; ++j)
        y[j] = token[j] + position[j];
    }
  });
  return output;
}

void embedding_backward(stream& on, const tensor& output_gradient, const tensor& ids,
                        tensor& tokens_gradient, tensor& positions_gradient) {
  check(ids, tokens_gradient, positions_gradient);
  const auto columns = tokens_gradient.shape()[1];
  const auto length = ids.shape()[1];
  require(output_gradient, output_gradient.type(), {ids.shape()[0], length, columns}, "embedding",
          "the output's gradient");
  for (const auto* sums : {&tokens_gradient, &positions_gradient})
    require(*sums, accumulation_type(output_gradient.type()), sums->shape(), "embedding",
            "a table's gradient");
  if (by_float(on, output_gradient))
    return embedding_backward(on, widened(on, output_gradient), ids, tokens_gradient,
                              positions_gradient);
  if (auto* device = on.operations()) {
    device->embedding_backward(output_gradient, ids, tokens_gradient, positions_gradient);
    return;
  }
  with_float(output_gradient.type(), "embedding", [&]<class T>(T) {
    const auto indices = ids.span<std::int32_t>();
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      const T* dy = output_gradient.data<T>() + i * columns;
      T* token = tokens_gradient.data<T>() + indices[i] * columns;
      T* position = positions_gradient.data<T>() + i % length * columns;
      for (std::int64_t j = 0; j < columns; ++j) {
        token[j] += dy[j];
        position[j] += dy[j];
      }
    }
  });
}

} // namespace sluice::kernels::ops
