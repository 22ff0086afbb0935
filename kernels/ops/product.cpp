#include "kernels/ops/product.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/product_backend.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::ops {

namespace {

void check(const const_matrix& a, const const_matrix& b, const matrix& c, const tensor& bias) {
  if (a.columns != b.rows || a.rows != c.rows || b.columns != c.columns)
    throw std::invalid_argument(fmt::format("product: [{}, {}] x [{}, {}] does not give [{}, {}]",
                                            a.rows, a.columns, b.rows, b.columns, c.rows,
                                            c.columns));
  const bool known = c.type == a.type || c.type == accumulation_type(a.type);
  if (a.type != b.type || !known || !is_floating(a.type))
    throw std::invalid_argument(
      fmt::format("product: types {}, {} and {}", name(a.type), name(b.type), name(c.type)));
  if (bias && (bias.elements() != c.columns || bias.type() != c.type))
    throw std::invalid_argument(fmt::format("product: a bias {} of {} for {} columns of {}",
                                            to_string(bias.shape()), name(bias.type()), c.columns,
                                            name(c.type)));
  if (c.column_stride != 1)
    throw std::invalid_argument("product: the result must have row-major rows");
}

// For float64, which serves checks and not speed, and for products without terms.
template <class T>
void multiply_plainly(const const_matrix& a, const const_matrix& b, const matrix& c,
                      write_mode mode, const T* bias) {
  const auto* left = static_cast<const T*>(a.first);
  const auto* right = static_cast<const T*>(b.first);
  for (std::int64_t i = 0; i < c.rows; ++i) {
    T* row = static_cast<T*>(c.first) + i * c.row_stride;
    for (std::int64_t j = 0; j < c.columns; ++j) {
      T sum = 0;
      for (std::int64_t k = 0; k < a.columns; ++k)
        sum += left[i * a.row_stride + k * a.column_stride]
             * right[k * b.row_stride + j * b.column_stride];
      const T old = mode == write_mode::accumulate ? row[j] : T{0};
      row[j] = old + (bias != nullptr ? sum + bias[j] : sum);
    }
  }
}

} // namespace

void product(stream& on, const_matrix a, const_matrix b, matrix c, write_mode mode,
             const tensor& bias) {
  check(a, b, c, bias);
  if (c.rows == 0 || c.columns == 0)
    return;
  if (auto* device = on.operations())
    device->product(on, a, b, c, mode, bias);
  else if (a.type == dtype::bfloat16)
    refuse_type("product", a.type);
  else if (a.type == dtype::float64)
    multiply_plainly(a, b, c, mode, bias ? bias.data<double>() : nullptr);
  else if (a.columns == 0)
    multiply_plainly(a, b, c, mode, bias ? bias.data<float>() : nullptr);
  else
    multiply_float(on, {a, b, c, mode, bias ? bias.data<float>() : nullptr});
}

} // namespace sluice::kernels::ops
