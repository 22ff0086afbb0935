#include "tests/support/allocation_watch.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>

#include <dlfcn.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define SLUICE_WATCHES_ALLOCATIONS // the allocator is ours to replace
#endif

namespace {

struct watch_state {
  bool on = false;
  sluice::test::allocation_counts counts;
};

// Constant-initialised, so that reading it allocates nothing.
constinit thread_local watch_state watched;

} // namespace

#ifdef SLUICE_WATCHES_ALLOCATIONS

namespace {

bool in_product_library(const void* caller) {
  Dl_info found;
  if (dladdr(caller, &found) == 0 || found.dli_fname == nullptr)
    return false;
  for (const auto* library : {"libdnnl", "libgomp", "openblas"})
    if (std::strstr(found.dli_fname, library) != nullptr)
      return true;
  return false;
}

void note(std::size_t bytes, const void* caller) {
  if (!watched.on)
    return;
  ++(in_product_library(caller) ? watched.counts.products : watched.counts.ours);
  if (bytes > watched.counts.largest_bytes)
    watched.counts.largest_bytes = bytes;
}

} // namespace

// glibc's own allocator under its other names. The return address tells who asks.
extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  note(bytes, __builtin_return_address(0));
  return __libc_malloc(bytes);
}

void* calloc(std::size_t count, std::size_t bytes) {
  note(count * bytes, __builtin_return_address(0));
  return __libc_calloc(count, bytes);
}

void* realloc(void* old, std::size_t bytes) {
  note(bytes, __builtin_return_address(0));
  return __libc_realloc(old, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note(bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  note(bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** made, std::size_t alignment, std::size_t bytes) {
  note(bytes, __builtin_return_address(0));
  *made = __libc_memalign(alignment, bytes);
  return *made == nullptr ? ENOMEM : 0;
}

} // extern "C"

void* operator new(std::size_t bytes) {
  note(bytes, __builtin_return_address(0));
  if (void* made = __libc_malloc(bytes == 0 ? 1 : bytes))
    return made;
  throw std::bad_alloc{};
}

void* operator new[](std::size_t bytes) {
  note(bytes, __builtin_return_address(0));
  if (void* made = __libc_malloc(bytes == 0 ? 1 : bytes))
    return made;
  throw std::bad_alloc{};
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  note(bytes, __builtin_return_address(0));
  if (void* made = __libc_memalign(static_cast<std::size_t>(alignment), bytes))
    return made;
  throw std::bad_alloc{};
}

void operator delete(void* old) noexcept {
  std::free(old);
}
void operator delete[](void* old) noexcept {
  std::free(old);
}
void operator delete(void* old, std::size_t) noexcept {
  std::free(old);
}
void operator delete[](void* old, std::size_t) noexcept {
  std::free(old);
}
void operator delete(void* old, std::align_val_t) noexcept {
  std::free(old);
}
void operator delete(void* old, std::size_t, std::align_val_t) noexcept {
  std::free(old);
}

#endif

namespace sluice::test {

allocation_watch::allocation_watch() noexcept {
  watched.counts = {};
  watched.on = true;
}

allocation_watch::~allocation_watch() {
  watched.on = false;
}

allocation_counts allocation_watch::counts() const noexcept {
  return watched.counts;
}

bool allocation_watch::works() noexcept {
#ifdef SLUICE_WATCHES_ALLOCATIONS
  return true;
#else
  return false;
#endif
}

} // namespace sluice::test
