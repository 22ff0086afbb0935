#include "kernels/ops/product.hpp"

namespace sluice::kernels {
struct product_cache::implementation {};
product_cache::product_cache(int) : impl_(std::make_unique<implementation>()) {}
product_cache::~product_cache() = default;
} // namespace sluice::kernels
