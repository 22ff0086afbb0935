#include "net/checksum.hpp"

#include <cstring>

#if defined(__SSE4_2__) && defined(__x86_64__)
#include <nmmintrin.h>
#else
#include <boost/crc.hpp>
#endif

namespace sluice::net {

#if defined(__SSE4_2__) && defined(__x86_64__)

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  std::uint64_t crc = ~before;
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    crc = _mm_crc32_u64(crc, word);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (const auto each : bytes)
    rest = _mm_crc32_u8(rest, std::to_integer<std::uint8_t>(each));
  return ~rest;
}

#else

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  // Boost starts from a register that is not yet reflected; turning `before` back gives it one.
  std::uint32_t state = 0;
  for (int bit = 0; bit < 32; ++bit)
    state |= ((~before >> bit) & 1U) << (31 - bit);
  boost::crc_optimal<32, 0x1EDC6F41, 0, 0xFFFFFFFF, true, true> sum(state);
  sum.process_bytes(bytes.data(), bytes.size());
  return sum.checksum();
}

#endif

} // namespace sluice::net
