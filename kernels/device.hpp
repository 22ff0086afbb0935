#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace sluice::kernels {

/// Where tensors live and tasks run: one memory and one queue of work.
class device {
public:
  virtual ~device() = default;

  /// As the user names it: "cpu", "cuda:0".
  virtual std::string name() const = 0;

  /// Memory aligned to buffer_alignment_bytes. Errors: std::bad_alloc.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* memory, std::size_t bytes) noexcept = 0;
};

/// Every buffer starts on such a boundary, so that a product sees the same alignment, and gives
/// the same bits, whichever block the pool hands out.
inline constexpr std::size_t buffer_alignment_bytes = 64;

/// The processor that this program runs on.
std::shared_ptr<device> make_cpu_device();

} // namespace sluice::kernels
