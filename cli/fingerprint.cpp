#include "cli/fingerprint.hpp"

#include <algorithm>
#include <cstring>

namespace sluice::cli {

std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t fingerprint(std::string_view bytes) noexcept {
  std::uint64_t hash = mix(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += sizeof hash) {
    std::uint64_t piece = 0;
    std::memcpy(&piece, bytes.data() + at, std::min(sizeof piece, bytes.size() - at));
    hash = mix(hash ^ piece);
  }
  return hash;
}

} // namespace sluice::cli
