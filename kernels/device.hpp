#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace sluice::kernels {

namespace ops {
class device_operations;
}

/// Where tensors live and tasks run: one memory and one queue of work.
class device {
public:
  virtual ~device() = default;

  /// As the user names it: "cpu", "cuda:0".
  virtual std::string name() const = 0;

  /// Memory aligned to buffer_alignment_bytes. Errors: std::bad_alloc.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* memory, std::size_t bytes) noexcept = 0;

  // -- its queue of work: what follows is done in the order of the calls -------------------------
  // Here, for memory that the processor can touch, each call does it at once.

  /// Sets bytes of the device's memory. Bytes only: zero is what it is for, and 0xFF.
  virtual void fill(void* memory, std::byte value, std::size_t bytes);

  /// Copies within the device's memory.
  virtual void copy(void* to, const void* from, std::size_t bytes);

  /// Copies from the processor's memory, which may change as soon as this returns.
  virtual void upload(void* to, const void* from, std::size_t bytes);

  /// Copies to the processor's memory. Returns when all before it is done, and this.
  virtual void download(void* to, const void* from, std::size_t bytes);

  /// Copies to the processor's memory what the device is done with computing, and waits for nothing
  /// else in the queue. On any thread.
  virtual void fetch(void* to, const void* from, std::size_t bytes);

  /// Calls `then` when all before it is done: at once, or later on a thread that must not be held
  /// up and may call nothing of the device.
  virtual void when_done(std::function<void()> then);

  /// Returns when all before it is done. Errors: what the device failed with.
  virtual void wait();

  /// The operations of a device whose memory the processor cannot touch; else null.
  virtual ops::device_operations* operations() noexcept { return nullptr; }
  bool is_host() noexcept { return operations() == nullptr; }
};

/// Every buffer starts on such a boundary, so that a product sees the same alignment, and gives
/// the same bits, whichever block the pool hands out.
inline constexpr std::size_t buffer_alignment_bytes = 64;

/// The processor that this program runs on.
std::shared_ptr<device> make_cpu_device();

} // namespace sluice::kernels
