#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace sluice::emulation {

/// The memory of one emulated device: a range of addresses that is mapped without any rights
/// except while an operation of the device runs (mprotect; protection keys would do it per thread,
/// but many machines have none). So a host that touches device memory faults, unless it does so
/// at the very moment when the device works; the lazy schedule leaves no such moment.
///
/// New memory is full of 0xFF, which is NaN as float. Behind each allocation lies a zone whose
/// bytes are checked after every kernel; under AddressSanitizer it may not be touched at all.
/// Thread: under the engine's lock.
class device_memory {
public:
  device_memory();
  ~device_memory();
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;

  /// Null when the memory is full.
  void* allocate(std::size_t bytes);

  /// False for what is no allocation.
  bool release(void* memory);

  /// The bytes from `address` to the end of the allocation that it lies in; 0 if in none.
  std::size_t bytes_from(const void* address) const;
  bool contains(const void* address) const;

  /// Nested; the rights go with the last close().
  void open();
  void close();

  /// The first allocation behind which something was written, as text, or nothing.
  std::string overrun();

private:
  struct allocation {
    std::size_t bytes;
    std::size_t room;
  };

  char* base_;
  std::size_t used_ = 0;
  std::map<std::uintptr_t, allocation> live_;
  std::multimap<std::size_t, char*> free_;
  int opened_ = 0;
};

} // namespace sluice::emulation
