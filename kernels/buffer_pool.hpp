#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "kernels/device.hpp"
#include "kernels/tensor.hpp"

namespace sluice::kernels {

/// How much a pool has handed out, by use.
struct pool_usage {
  std::array<std::size_t, buffer_uses> live_bytes{};
  std::array<std::size_t, buffer_uses> peak_bytes{}; ///< since construction or reset_peaks()
  std::size_t live_total_bytes = 0;
  std::size_t peak_total_bytes = 0;
  std::size_t device_bytes = 0;       ///< taken from the device, handed out or not
  std::size_t device_allocations = 0; ///< calls to device::allocate so far

  std::size_t live(buffer_use use) const { return live_bytes[static_cast<std::size_t>(use)]; }
  std::size_t peak(buffer_use use) const { return peak_bytes[static_cast<std::size_t>(use)]; }
};

/// Buffers of one device, kept for reuse: after the first step of a training run every request
/// is served from what came back, and the device's allocator is not called again.
///
/// Sizes are rounded up to one of eight classes per power of two (at most 12.5% slack).
/// Tensors may outlive the pool object; the memory goes when the last of them does.
/// Thread: allocate() from the owning stage's thread; tensors may be released on any thread.
class buffer_pool {
public:
  /// limit_bytes: the most that may be taken from the device; 0 for no limit. At the limit, free
  /// buffers of other sizes go back to the device.
  explicit buffer_pool(std::shared_ptr<device> memory, std::size_t limit_bytes = 0);

  /// Uninitialised elements, accounted for as scratch until set_use() says otherwise.
  /// Errors: sluice::kernels::out_of_memory when the limit or the device is exhausted.
  tensor allocate(dtype type, const shape& extents);

  /// Another library's memory as a tensor, without a copy: counted like the pool's own, but outside
  /// its limit, and given back by dropping `owner` with the last handle. It is never unique(), so
  /// that nobody writes over what the library may still read.
  tensor adopt(dtype type, const shape& extents, void* memory, std::shared_ptr<void> owner);

  /// All elements zero.
  tensor zeros(dtype type, const shape& extents);

  /// Starts to note which buffers a task allocates; see task_demand.
  void begin_task();

  /// What the task since begin_task() needed of each size class.
  struct task_demand {
    static constexpr std::size_t classes = 320;
    std::array<std::uint32_t, classes> kept{};    ///< still held at its end
    std::array<std::uint32_t, classes> dropped{}; ///< held at once and given back before its end

    /// Makes room for `times` such tasks, of which one runs at a time and all keep what they keep.
    void add(const task_demand& other, std::size_t times);

    /// Takes the larger of both in each class.
    void widen(const task_demand& other);

    /// Counts a buffer of so many bytes as kept.
    void keep(std::size_t bytes);

    std::size_t kept_bytes() const;
    std::size_t dropped_bytes() const;
  };
  task_demand end_task();

  /// Takes from the device now what a demand lacks among the free buffers, so that a later,
  /// differently timed step finds it. Stops at the limit, if the pool has one.
  void reserve(const task_demand& demand);

  pool_usage usage() const;
  void reset_peaks();

  /// Fills every buffer that comes back with NaN bytes (0xFF), so that a use after release shows.
  void poison_released(bool on);

  const std::shared_ptr<device>& memory() const noexcept;

  struct core; ///< opaque: what outlives the pool while tensors do

private:
  friend class tensor;
  void hand_out(block* taken);

  std::shared_ptr<core> core_;
};

/// A pool's limit or its device's memory is exhausted; says how much was asked for and held.
class out_of_memory : public std::bad_alloc {
public:
  explicit out_of_memory(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

private:
  std::string what_;
};

} // namespace sluice::kernels
