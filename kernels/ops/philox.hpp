#pragma once

#include <cstdint>

#include "kernels/ops/random.hpp"

// Philox4x32-10 for one block, the same on the processor and in a kernel; see random.hpp.

#ifdef __CUDACC__
#define SLUICE_HOST_AND_DEVICE __host__ __device__
#else
#define SLUICE_HOST_AND_DEVICE
#endif

namespace sluice::kernels::ops {

constexpr std::uint32_t philox_multiplier0 = 0xD2511F53U;
constexpr std::uint32_t philox_multiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t philox_weyl0 = 0x9E3779B9U;
constexpr std::uint32_t philox_weyl1 = 0xBB67AE85U;

SLUICE_HOST_AND_DEVICE inline std::uint64_t mix_bits(std::uint64_t x) noexcept { // splitmix64's end
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

/// What is the same for all elements of a sample. Of step and sample the low halves count; their
/// high halves join the key, so that nothing repeats before 2^64.
struct philox_call {
  std::uint32_t key0, key1, sample, step, operation;
};

SLUICE_HOST_AND_DEVICE inline philox_call prepare_philox(const random_key& key,
                                                         std::uint64_t sample) noexcept {
  const auto k = mix_bits(mix_bits(key.seed) ^ mix_bits(key.layer + 1) ^ (key.step >> 32U) * 3
                          ^ (sample >> 32U) * 5);
  return {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(k >> 32U),
          static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(key.step), key.operation};
}

struct philox_block {
  std::uint32_t words[4];
};

SLUICE_HOST_AND_DEVICE inline philox_block philox(const philox_call& call,
                                                  std::uint32_t block) noexcept {
  philox_block x{{block, call.sample, call.step, call.operation}};
  auto key0 = call.key0;
  auto key1 = call.key1;
  for (int round = 0; round < 10; ++round, key0 += philox_weyl0, key1 += philox_weyl1) {
    const auto product0 = std::uint64_t{philox_multiplier0} * x.words[0];
    const auto product1 = std::uint64_t{philox_multiplier1} * x.words[2];
    x = {{static_cast<std::uint32_t>(product1 >> 32U) ^ x.words[1] ^ key0,
          static_cast<std::uint32_t>(product1),
          static_cast<std::uint32_t>(product0 >> 32U) ^ x.words[3] ^ key1,
          static_cast<std::uint32_t>(product0)}};
  }
  return x;
}

/// The word of one element of a sample.
SLUICE_HOST_AND_DEVICE inline std::uint32_t philox_word(const philox_call& call,
                                                        std::uint64_t element) noexcept {
  const auto block = static_cast<std::uint32_t>(16 * (element / 64) + element % 16);
  const auto x = philox(call, block);
  // Not by an index that only the run knows: that would move the array to local memory.
  const auto word = element / 16 % 4;
  return word == 0 ? x.words[0] : word == 1 ? x.words[1] : word == 2 ? x.words[2] : x.words[3];
}

} // namespace sluice::kernels::ops
