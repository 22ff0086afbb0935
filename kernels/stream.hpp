#pragma once

#include <memory>

#include "kernels/buffer_pool.hpp"
#include "kernels/device.hpp"

namespace sluice::kernels {

class product_cache;

/// The order in which one stage's operations run on its device, and what they need there: the
/// pool for their results and the prepared matrix products. Every operation takes one first.
///
/// Thread: one thread at a time, the stage's.
class stream {
public:
  /// threads: how many a matrix product uses (on a CPU); results are bitwise the same only
  /// for the same number.
  /// memory_limit_bytes: see buffer_pool.
  explicit stream(std::shared_ptr<device> on, int threads = 1, std::size_t memory_limit_bytes = 0);
  ~stream();
  stream(stream&&) noexcept;
  stream& operator=(stream&&) noexcept;

  buffer_pool& pool() noexcept { return pool_; }
  int threads() const noexcept { return threads_; }
  device& where() const noexcept { return *pool_.memory(); }

  /// What runs in place of the processor's code; null on the processor.
  ops::device_operations* operations() const noexcept { return where().operations(); }

  tensor allocate(dtype type, const shape& extents) { return pool_.allocate(type, extents); }
  tensor zeros(dtype type, const shape& extents) { return pool_.zeros(type, extents); }

  /// The matrix products prepared on this stream so far (kernels/ops/product.cpp).
  product_cache& products() noexcept { return *products_; }

private:
  buffer_pool pool_;
  int threads_;
  std::unique_ptr<product_cache> products_;
};

} // namespace sluice::kernels
