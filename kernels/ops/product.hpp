#pragma once

#include <cstdint>
#include <memory>

#include "kernels/ops/matrix.hpp"
#include "kernels/tensor.hpp"

namespace sluice::kernels {

class stream;

/// The matrix products that a stream has prepared, by shape: preparing costs 0.3 to 20 ms, far
/// more than running. Lives with its stream and is used by one thread.
class product_cache {
public:
  explicit product_cache(int threads);
  ~product_cache();

  struct implementation;
  implementation& get() noexcept { return *impl_; }

private:
  std::unique_ptr<implementation> impl_;
};

namespace ops {

/// What becomes of an output's old contents.
enum class write_mode : std::uint8_t { overwrite, accumulate };

/// c = a b, or c += a b; `bias` [c.columns], where there is one, is added to every row.
///
/// Shapes: a [m, k], b [k, n], c [m, n], any of a and b transposed; c has row-major rows. The types
/// are the same, but that a product of bfloat16 may be added up in float32, and is made on GPUs
/// only. A product without terms (k = 0) is zero. The same bits for the same shapes, strides,
/// number of threads and instruction set. Cost: scratch comes from the stream's pool. oneDNN notes
/// each call in some seven allocations of about 100 bytes; dense operands (no gaps between rows) on
/// a processor with AVX-512 need no other after the first call of a shape, all else lets oneDNN 2
/// allocate room to pack them in. Errors: std::invalid_argument for shapes that do not fit, mixed
/// or integer types.
void product(stream& on, const_matrix a, const_matrix b, matrix c, write_mode mode,
             const tensor& bias = {});

} // namespace ops
} // namespace sluice::kernels
