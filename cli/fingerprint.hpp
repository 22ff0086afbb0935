#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::cli {

/// The finaliser of SplitMix64: every input bit moves every output bit.
std::uint64_t mix(std::uint64_t x) noexcept;

/// Tells texts apart: against mistakes and damage, not against intent.
std::uint64_t fingerprint(std::string_view bytes) noexcept;

} // namespace sluice::cli
