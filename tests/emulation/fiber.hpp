#pragma once

#include <cstddef>
#include <memory>

namespace sluice::emulation {

/// A stack of its own on which a function runs until it switches away. The context from which the
/// first switch comes is a fiber without a stack.
///
/// Thread: all fibers that switch to each other live on one thread.
class fiber {
public:
  fiber() = default; ///< the calling thread itself
  explicit fiber(void (*entry)());
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// Leaves `from`, which must be the running one, for this fiber.
  void resume_from(fiber& from);

private:
  static void begin();

  void* stack_pointer_ = nullptr;
  char* stack_ = nullptr;
  void* fake_stack_ = nullptr; ///< AddressSanitizer's
  void* tsan_fiber_ = nullptr; ///< ThreadSanitizer's
  void (*entry_)() = nullptr;
};

} // namespace sluice::emulation
