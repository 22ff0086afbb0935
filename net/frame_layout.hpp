#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::net {

/// Where the fields of a frame lie; drawn in frame.hpp.
namespace frame_layout {

inline constexpr std::uint32_t magic = 0x31464C53; // "SLF1"
inline constexpr std::size_t header_bytes = 48;
inline constexpr std::size_t version_at = 4;
inline constexpr std::size_t kind_at = 6;
inline constexpr std::size_t flags_at = 7;
inline constexpr std::size_t epoch_at = 8;
inline constexpr std::size_t from_at = 16;
inline constexpr std::size_t to_at = 20;
inline constexpr std::size_t chunk_at = 24;
inline constexpr std::size_t micro_batch_at = 28;
inline constexpr std::size_t payload_at = 32;
inline constexpr std::size_t tensors_at = 33;
inline constexpr std::size_t slots_at = 36;
inline constexpr std::size_t header_crc_at = 44;

inline constexpr std::size_t description_bytes = 64;
inline constexpr std::size_t present_at = 0;
inline constexpr std::size_t type_at = 1;
inline constexpr std::size_t rank_at = 2;
inline constexpr std::size_t bytes_at = 8;
inline constexpr std::size_t extents_at = 16;

/// With a checksum, bytes are summed in pieces that stay in the cache until they are copied.
inline constexpr std::size_t piece_bytes = std::size_t{256} << 10;

} // namespace frame_layout

} // namespace sluice::net
