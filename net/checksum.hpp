#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::net {

/// The CRC-32C (Castagnoli) of `bytes`, continued from that of what came before them.
/// Cost: about 7 GB/s where the processor has the instruction, 0.4 GB/s elsewhere.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

} // namespace sluice::net
