#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/tensor.hpp"

namespace sluice::kernels::ops {

/// A matrix that lies inside a tensor: what a product reads or writes. Never owns.
///
/// Element (i, j) is i * row_stride + j * column_stride elements behind the first; one of the
/// strides is 1. A transposed operand is a view with the strides swapped.
template <class Void>
struct basic_matrix {
  Void* first = nullptr;
  dtype type = dtype::float32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;

  basic_matrix transposed() const noexcept {
    return {first, type, columns, rows, column_stride, row_stride};
  }

  /// The block of `height` x `width` whose corner is (row, column).
  basic_matrix block(std::int64_t row, std::int64_t column, std::int64_t height,
                     std::int64_t width) const noexcept {
    using byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
    const auto offset =
      (row * row_stride + column * column_stride) * static_cast<std::int64_t>(size_bytes(type));
    return {static_cast<byte*>(first) + offset, type, height, width, row_stride, column_stride};
  }

  operator basic_matrix<const void>() const noexcept requires(!std::is_const_v<Void>) {
    return {first, type, rows, columns, row_stride, column_stride};
  }
};

using matrix = basic_matrix<void>;
using const_matrix = basic_matrix<const void>;

/// A tensor [..., N] as a matrix of shape().rows() rows and N columns.
/// Errors: std::logic_error when it is absent.
matrix matrix_of(tensor& of);
const_matrix matrix_of(const tensor& of);

} // namespace sluice::kernels::ops
