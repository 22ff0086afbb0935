#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace sluice::kernels {

/// The extents of a tensor, outermost first, in row-major order. Never allocates.
class shape {
public:
  static constexpr std::size_t max_rank = 6;

  shape() noexcept = default;

  /// Errors: std::invalid_argument for a negative extent or more than max_rank of them.
  shape(std::initializer_list<std::int64_t> extents);
  explicit shape(std::span<const std::int64_t> extents);

  std::size_t rank() const noexcept { return rank_; }

  /// Extent i; i counts from the end when negative.
  std::int64_t operator[](int i) const noexcept {
    return extents_[static_cast<std::size_t>(i < 0 ? i + static_cast<int>(rank_) : i)];
  }

  std::span<const std::int64_t> extents() const noexcept { return {extents_.data(), rank_}; }

  /// The product of all extents; 1 for a scalar (rank 0).
  std::int64_t elements() const noexcept;

  /// The product of all extents but the last: how many rows a row-wise operation sees.
  std::int64_t rows() const noexcept;

  bool operator==(const shape&) const noexcept = default;

private:
  std::array<std::int64_t, max_rank> extents_{};
  std::size_t rank_ = 0;
};

/// "[4, 128, 256]"
std::string to_string(const shape& extents);

} // namespace sluice::kernels
