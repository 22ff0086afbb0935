#include "kernels/ops/random.hpp"

#include <algorithm>
#include <array>

namespace sluice::kernels::ops {

namespace {

constexpr std::size_t width = random_group / 4;
using words16 = std::array<std::uint32_t, width>;

struct philox_state {
  words16 a, b, c, d;
};

void philox_round(philox_state& x, std::uint32_t key0, std::uint32_t key1) noexcept {
  constexpr std::uint32_t multiplier0 = 0xD2511F53U;
  constexpr std::uint32_t multiplier1 = 0xCD9E8D57U;
  words16 high0, high1, low0, low1;
  // One simple loop per product: g++ makes vector code of these and not of a loop with all four.
  for (std::size_t i = 0; i < width; ++i)
    high0[i] = static_cast<std::uint32_t>((std::uint64_t{multiplier0} * x.a[i]) >> 32U);
  for (std::size_t i = 0; i < width; ++i)
    high1[i] = static_cast<std::uint32_t>((std::uint64_t{multiplier1} * x.c[i]) >> 32U);
  for (std::size_t i = 0; i < width; ++i)
    low0[i] = multiplier0 * x.a[i];
  for (std::size_t i = 0; i < width; ++i)
    low1[i] = multiplier1 * x.c[i];
  for (std::size_t i = 0; i < width; ++i) {
    x.a[i] = high1[i] ^ x.b[i] ^ key0;
    x.c[i] = high0[i] ^ x.d[i] ^ key1;
  }
  x.b = low1;
  x.d = low0;
}

std::uint64_t mix(std::uint64_t x) noexcept { // splitmix64's finaliser
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

// What is the same for all groups of a call. Of step and sample the low halves count; their high
// halves join the key, so that nothing repeats before 2^64.
struct philox_call {
  std::uint32_t key0, key1, sample, step, operation;
};

philox_call prepare(const random_key& key, std::uint64_t sample) noexcept {
  const auto k = mix(mix(key.seed) ^ mix(key.layer + 1) ^ (key.step >> 32U) * 3
                     ^ (sample >> 32U) * 5);
  return {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(k >> 32U),
          static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(key.step),
          key.operation};
}

void one_group(const philox_call& call, std::uint64_t group, std::uint32_t* out) noexcept {
  philox_state x;
  for (std::size_t i = 0; i < width; ++i)
    x.a[i] = static_cast<std::uint32_t>(group * width + i);
  x.b.fill(call.sample);
  x.c.fill(call.step);
  x.d.fill(call.operation);
  auto key0 = call.key0;
  auto key1 = call.key1;
  for (int round = 0; round < 10; ++round) {
    philox_round(x, key0, key1);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  std::copy(x.a.begin(), x.a.end(), out);
  std::copy(x.b.begin(), x.b.end(), out + width);
  std::copy(x.c.begin(), x.c.end(), out + 2 * width);
  std::copy(x.d.begin(), x.d.end(), out + 3 * width);
}

} // namespace

std::uint64_t hash_name(std::string_view name) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

void random_words(const random_key& key, std::uint64_t sample, std::uint64_t first_element,
                  std::span<std::uint32_t> words) noexcept {
  const auto call = prepare(key, sample);
  auto group = first_element / random_group;
  std::size_t done = 0;
  for (; done + random_group <= words.size(); done += random_group)
    one_group(call, group++, words.data() + done);
  if (done < words.size()) {
    std::array<std::uint32_t, random_group> last;
    one_group(call, group, last.data());
    std::copy_n(last.begin(), words.size() - done, words.begin() + static_cast<std::ptrdiff_t>(done));
  }
}

} // namespace sluice::kernels::ops
