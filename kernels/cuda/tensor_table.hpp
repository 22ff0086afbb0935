#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/launch.hpp"

// One launch for many tensors: a table of them goes by value with the launch, and each block works
// on one piece of one tensor. So a model's hundreds of small parameters cost a few launches.

namespace sluice::kernels::cuda {

constexpr std::int64_t piece_elements = 4096; ///< of a block; its threads are 256

/// What every device takes as the arguments of a launch; some bytes are left for other arguments.
constexpr std::size_t argument_bytes = 4096;
constexpr std::size_t other_argument_bytes = 128;

/// Pointers: what a kernel needs of one tensor: `Count` pointers, and then perhaps a number.
template <class Pointers, std::size_t Count>
struct tensor_table {
  struct entry {
    Pointers of;
    std::int64_t count;       ///< elements
    std::int32_t first_piece; ///< in the grid
  };
  static constexpr std::size_t most = (argument_bytes - other_argument_bytes) / sizeof(entry);

  entry entries[most]; // no std::array: its functions are the host's
  std::int32_t size = 0;
  std::int32_t pieces = 0; ///< of all entries

  /// For the emulation, which looks at the pointers that a launch is given.
  template <class Note>
  void each_pointer(Note note) const {
    for (std::int32_t i = 0; i < size; ++i)
      for (std::size_t k = 0; k < Count; ++k) {
        const void* pointer = nullptr;
        std::memcpy(&pointer, reinterpret_cast<const char*>(&entries[i].of) + k * sizeof pointer,
                    sizeof pointer);
        note(pointer);
      }
  }
};

__host__ __device__ constexpr std::int32_t pieces_of(std::int64_t count) {
  return static_cast<std::int32_t>((count + piece_elements - 1) / piece_elements);
}

/// The elements [begin, end) of the tensor `entry`.
struct tensor_piece {
  std::int32_t entry;
  std::int64_t begin;
  std::int64_t end;
};

/// What block `block` works on. The same for all its threads, so the search costs little.
template <class Table>
__device__ inline tensor_piece piece_of(const Table& table, std::int32_t block) {
  std::int32_t low = 0;
  std::int32_t high = table.size - 1;
  while (low < high) { // the last entry that begins at the block or before
    const std::int32_t middle = (low + high + 1) / 2;
    if (table.entries[middle].first_piece <= block)
      low = middle;
    else
      high = middle - 1;
  }
  const auto& found = table.entries[low];
  const std::int64_t begin = (block - found.first_piece) * piece_elements;
  const std::int64_t end = begin + piece_elements;
  return {low, begin, end < found.count ? end : found.count};
}

/// Calls launch(table, first) for the tensors [first, first + table.size), as many at a time as a
/// table holds. element(i) gives the pointers and the number of elements of tensor i.
template <class Table, class Element, class Launch>
void for_each_table(std::size_t tensors, Element element, Launch launch) {
  for (std::size_t first = 0; first < tensors;) {
    Table table{};
    const auto begin = first;
    for (; first < tensors && first - begin < table.most; ++first) {
      const auto [of, count] = element(first);
      table.entries[first - begin] = {of, count, table.pieces};
      table.pieces += pieces_of(count);
      ++table.size;
    }
    launch(table, begin);
  }
}

} // namespace sluice::kernels::cuda
