#include "tests/emulation/memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include <sys/mman.h>

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void*, std::size_t);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void*, std::size_t);
}

namespace sluice::emulation {

namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 30;
constexpr std::size_t zone_bytes = 64;
constexpr std::size_t alignment = 256;
constexpr unsigned char zone_byte = 0xA5;

void poison(const void* at, std::size_t bytes) {
  if (__asan_poison_memory_region != nullptr)
    __asan_poison_memory_region(at, bytes);
}

void unpoison(const void* at, std::size_t bytes) {
  if (__asan_unpoison_memory_region != nullptr)
    __asan_unpoison_memory_region(at, bytes);
}

} // namespace

device_memory::device_memory() {
  auto* mapped =
    mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw std::bad_alloc();
  base_ = static_cast<char*>(mapped);
  poison(base_, arena_bytes);
}

device_memory::~device_memory() {
  unpoison(base_, arena_bytes);
  munmap(base_, arena_bytes);
}

void* device_memory::allocate(std::size_t bytes) {
  const auto room = (bytes + zone_bytes + alignment - 1) / alignment * alignment;
  char* at = nullptr;
  if (const auto reusable = free_.find(room); reusable != free_.end()) {
    at = reusable->second;
    free_.erase(reusable);
  } else {
    if (used_ + room > arena_bytes)
      return nullptr;
    at = base_ + used_;
    if (opened_ > 0)
      mprotect(base_, used_ + room, PROT_READ | PROT_WRITE);
    used_ += room;
  }
  open();
  unpoison(at, room);
  std::memset(at, 0xFF, bytes);
  std::memset(at + bytes, zone_byte, room - bytes);
  poison(at + bytes, room - bytes);
  close();
  live_[reinterpret_cast<std::uintptr_t>(at)] = {bytes, room};
  return at;
}

bool device_memory::release(void* memory) {
  const auto found = live_.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == live_.end())
    return false;
  open();
  std::memset(memory, 0xFF, found->second.bytes);
  close();
  poison(memory, found->second.room);
  free_.emplace(found->second.room, static_cast<char*>(memory));
  live_.erase(found);
  return true;
}

std::size_t device_memory::bytes_from(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto after = live_.upper_bound(at);
  if (after == live_.begin())
    return 0;
  const auto& [start, what] = *--after;
  return at < start + what.bytes ? start + what.bytes - at : 0;
}

bool device_memory::contains(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  return at >= base_ && at < base_ + arena_bytes;
}

void device_memory::open() {
  if (opened_++ == 0 && used_ > 0)
    mprotect(base_, used_, PROT_READ | PROT_WRITE);
}

void device_memory::close() {
  if (--opened_ == 0 && used_ > 0)
    mprotect(base_, used_, PROT_NONE);
}

std::string device_memory::overrun() {
  if (__asan_poison_memory_region != nullptr)
    return {}; // Reported where it happens.
  std::string found;
  open();
  for (const auto& [start, what] : live_) {
    const auto* zone = reinterpret_cast<const unsigned char*>(start) + what.bytes;
    const auto* end = reinterpret_cast<const unsigned char*>(start) + what.room;
    if (found.empty() && !std::all_of(zone, end, [](auto byte) { return byte == zone_byte; }))
      found = "memory behind an allocation of " + std::to_string(what.bytes) + " bytes";
    if (!found.empty())
      break;
  }
  close();
  return found;
}

} // namespace sluice::emulation
