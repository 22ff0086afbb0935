#pragma once

#include <cstddef>

namespace sluice::test {

/// What one thread asked the C and C++ allocators for.
struct allocation_counts {
  std::size_t ours = 0;          ///< from this program and the libraries it shares code with
  std::size_t products = 0;      ///< from within oneDNN, its OpenMP or OpenBLAS: notes of a call
  std::size_t largest_bytes = 0; ///< of either
};

/// Counts the allocations of the thread that makes it, until it is asked or goes. Link
/// allocation_watch.cpp, which replaces malloc and operator new for the whole program.
///
/// Thread: only the one that made it. One at a time on each thread.
class allocation_watch {
public:
  allocation_watch() noexcept;
  ~allocation_watch();
  allocation_watch(const allocation_watch&) = delete;
  allocation_watch& operator=(const allocation_watch&) = delete;

  allocation_counts counts() const noexcept;

  /// False under a sanitizer, which has the allocator to itself: then nothing is counted.
  static bool works() noexcept;
};

} // namespace sluice::test
