#include "kernels/ops/product_backend.hpp"

#include <algorithm>
#include <mutex>

#include <cblas.h>

#include "kernels/stream.hpp"

namespace sluice::kernels {

// OpenBLAS prepares nothing; its threads are the program's, not a stream's, so each product runs
// on the thread that asks for it.
struct product_cache::implementation {};

product_cache::product_cache(int) : impl_(std::make_unique<implementation>()) {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}
product_cache::~product_cache() = default;

namespace ops {

namespace {

struct blas_operand {
  const float* first;
  CBLAS_TRANSPOSE order;
  int leading;
};

blas_operand operand(const const_matrix& view) {
  const auto* first = static_cast<const float*>(view.first);
  const bool row_major = view.column_stride == 1;
  const auto stride =
    row_major ? std::max(view.row_stride, view.columns) : std::max(view.column_stride, view.rows);
  return {first, row_major ? CblasNoTrans : CblasTrans, static_cast<int>(stride)};
}

} // namespace

void multiply_float(stream&, const float_product& what) {
  auto* c = static_cast<float*>(what.c.first);
  const bool accumulates = what.mode == write_mode::accumulate;
  if (what.bias != nullptr)
    for (std::int64_t i = 0; i < what.c.rows; ++i)
      for (std::int64_t j = 0; j < what.c.columns; ++j) {
        float& element = c[i * what.c.row_stride + j];
        element = accumulates ? element + what.bias[j] : what.bias[j];
      }
  const auto a = operand(what.a);
  const auto b = operand(what.b);
  cblas_sgemm(CblasRowMajor, a.order, b.order, static_cast<int>(what.c.rows),
              static_cast<int>(what.c.columns), static_cast<int>(what.a.columns), 1.0F, a.first,
              a.leading, b.first, b.leading, accumulates || what.bias != nullptr ? 1.0F : 0.0F, c,
              static_cast<int>(what.c.row_stride));
}

} // namespace ops
} // namespace sluice::kernels
