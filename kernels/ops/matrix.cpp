#include "kernels/ops/matrix.hpp"

namespace sluice::kernels::ops {

matrix matrix_of(tensor& of) {
  void* first = of.bytes_span().data();
  const auto columns = of.shape().rank() == 0 ? 1 : of.shape()[-1];
  return {first, of.type(), of.shape().rows(), columns, columns, 1};
}

const_matrix matrix_of(const tensor& of) {
  const void* first = of.bytes_span().data();
  const auto columns = of.shape().rank() == 0 ? 1 : of.shape()[-1];
  return {first, of.type(), of.shape().rows(), columns, columns, 1};
}

} // namespace sluice::kernels::ops
