#pragma once

#include <cstdint>
#include <memory>

#include "kernels/tensor.hpp"

namespace sluice::kernels {

class stream;

/// The matrix products that a stream has prepared, by shape: preparing costs far more than
/// running. Lives with its stream and is used by one thread.
class product_cache {
public:
  explicit product_cache(int threads);
  ~product_cache();

  struct implementation;
  implementation& get() noexcept { return *impl_; }

private:
  std::unique_ptr<implementation> impl_;
};

} // namespace sluice::kernels
