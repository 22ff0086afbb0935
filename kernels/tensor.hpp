#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kernels/dtype.hpp"
#include "kernels/shape.hpp"

namespace sluice::kernels {

struct block;
class buffer_pool;
class device;

/// What a buffer is held for; the pool accounts for its bytes under this heading.
enum class buffer_use : std::uint8_t {
  parameter,  ///< weights, their gradients and the optimizer's state: lives as long as the model
  activation, ///< saved by a forward for its backward
  transfer,   ///< in a receive slot, or sent and not yet released by the channel
  scratch,    ///< everything else: what a task makes and drops
};
inline constexpr std::size_t buffer_uses = 4;

/// A counted handle to a row-major array in a pooled buffer.
///
/// Copies share the buffer; the last one to go returns it to its pool. A default-constructed
/// tensor holds nothing and stands for "absent": an optional input, or no gradient.
///
/// Thread: handles to one buffer may live on several threads, as with std::shared_ptr; the
/// elements are the holder's own business (a buffer belongs to one task or transport at a time).
class tensor {
public:
  tensor() noexcept = default;
  tensor(const tensor& other) noexcept;
  tensor(tensor&& other) noexcept
    : block_(std::exchange(other.block_, nullptr)),
      offset_bytes_(other.offset_bytes_),
      type_(other.type_),
      shape_(other.shape_) {}
  tensor& operator=(tensor other) noexcept;
  ~tensor();

  explicit operator bool() const noexcept { return block_ != nullptr; }

  dtype type() const noexcept { return type_; }
  const kernels::shape& shape() const noexcept { return shape_; }
  std::int64_t elements() const noexcept { return shape_.elements(); }
  std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(elements()) * size_bytes(type_);
  }

  /// The elements as T. Errors: std::logic_error when T is not the tensor's type or it is absent.
  template <class T>
  std::span<T> span() {
    return {static_cast<T*>(checked_data(dtype_of<T>)), static_cast<std::size_t>(elements())};
  }
  template <class T>
  std::span<const T> span() const {
    return {static_cast<const T*>(checked_data(dtype_of<T>)), static_cast<std::size_t>(elements())};
  }
  template <class T>
  T* data() {
    return span<T>().data();
  }
  template <class T>
  const T* data() const {
    return span<T>().data();
  }

  /// The elements as untyped bytes.
  std::span<std::byte> bytes_span();
  std::span<const std::byte> bytes_span() const;

  /// The same elements under another shape. Errors: std::invalid_argument when the counts differ.
  tensor reshaped(kernels::shape to) const;

  /// Rows [first, first + count) of the outermost dimension, sharing the buffer.
  /// Errors: std::out_of_range.
  tensor slice(std::int64_t first, std::int64_t count) const;

  /// The device that its buffer lies on; null when absent.
  device* where() const noexcept;

  /// Whether this is the only handle to the buffer.
  bool sole_handle() const noexcept;

  /// The same, and the buffer is a pool's own: its holder may write over it.
  bool unique() const noexcept;

  /// Whether both are handles to the same buffer.
  bool shares_buffer_with(const tensor& other) const noexcept {
    return block_ != nullptr && block_ == other.block_;
  }

  /// Accounts for the buffer under `use` from now on, in the pool that it counts against.
  void set_use(buffer_use use) noexcept;

  /// Moves the buffer to the account of `pool`: a hand-off between two stages of one process.
  /// The memory itself still returns to the pool that it came from.
  void charge_to(buffer_pool& pool, buffer_use use) noexcept;

private:
  friend class buffer_pool;
  tensor(block* held, dtype type, kernels::shape extents) noexcept
    : block_(held),
      type_(type),
      shape_(extents) {}
  void* checked_data(dtype expected) const;

  block* block_ = nullptr;
  std::size_t offset_bytes_ = 0;
  dtype type_ = dtype::float32;
  kernels::shape shape_;
};

/// What passes between chunks: a few tensors, some of them without gradient, some absent.
/// Up to four need no allocation.
using tensor_list = boost::container::small_vector<tensor, 4>;

} // namespace sluice::kernels
