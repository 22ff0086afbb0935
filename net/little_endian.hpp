#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

namespace sluice::net {

// Tensors' bytes travel as they lie in memory, so a big-endian host could not join anyway.
static_assert(std::endian::native == std::endian::little);

/// The number or enumerator at a place of a message.
template <class T>
T get_at(std::span<const std::byte> bytes, std::size_t at) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, bytes.subspan(at, sizeof(T)).data(), sizeof(T));
  return value;
}

template <class T>
void put_at(std::span<std::byte> bytes, std::size_t at, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(bytes.subspan(at, sizeof(T)).data(), &value, sizeof(T));
}

} // namespace sluice::net
