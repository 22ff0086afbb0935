#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::kernels::ops {

/// What random numbers are drawn for. They depend on this, the sample and the element alone: not
/// on where, when or in which micro-batch they are drawn.
struct random_key {
  std::uint64_t seed = 0;      ///< of the whole run
  std::uint64_t step = 0;      ///< the optimizer step
  std::uint64_t layer = 0;     ///< hash_name() of the layer or parameter
  std::uint32_t operation = 0; ///< tells apart the uses within one layer
};

/// FNV-1a, 64 bits.
std::uint64_t hash_name(std::string_view name) noexcept;

/// Random words come in groups of this many consecutive elements.
inline constexpr std::size_t random_group = 64;

/// Uniform 32-bit words for `words.size()` consecutive elements of one sample.
///
/// Element e is word (e / 16) % 4 of Philox block 16 (e / 64) + e % 16, so that one vector
/// register holds the same word of neighbouring blocks and is stored as it is.
/// first_element must be a multiple of random_group; a sample has 2^34 elements at most.
/// Cost: about 1 ns an element.
/// Source: Philox4x32-10 of Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011).
void random_words(const random_key& key, std::uint64_t sample, std::uint64_t first_element,
                  std::span<std::uint32_t> words) noexcept;

} // namespace sluice::kernels::ops
