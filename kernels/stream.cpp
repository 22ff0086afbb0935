#include "kernels/stream.hpp"

#include "kernels/ops/product.hpp"

namespace sluice::kernels {

stream::stream(std::shared_ptr<device> on, int threads, std::size_t memory_limit_bytes)
  : pool_(std::move(on), memory_limit_bytes),
    threads_(threads),
    products_(std::make_unique<product_cache>(threads)) {}

stream::~stream() = default;
stream::stream(stream&&) noexcept = default;
stream& stream::operator=(stream&&) noexcept = default;

} // namespace sluice::kernels
