#pragma once

#include "kernels/ops/product.hpp"

namespace sluice::kernels::ops {

/// A checked, non-empty float32 product. One of product_onednn.cpp and product_openblas.cpp is
/// built; each also defines product_cache.
struct float_product {
  const_matrix a;
  const_matrix b;
  matrix c;
  write_mode mode;
  const float* bias; ///< c.columns of them, or null
};

void multiply_float(stream& on, const float_product& what);

} // namespace sluice::kernels::ops
