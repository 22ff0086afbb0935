#include "kernels/ops/random.hpp"

#include <algorithm>
#include <array>

#include "kernels/ops/philox.hpp"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace sluice::kernels::ops {

namespace {

constexpr std::size_t width = random_group / 4;

#ifdef __AVX2__

// Four blocks at a time, a word in each 64-bit lane, of which the multiplication reads the lower
// half: what stands in the upper half is never cleared. g++ makes twice as much code of the
// portable loop below.
struct four_blocks {
  __m256i a, b, c, d;

  void round(std::uint32_t key0, std::uint32_t key1) noexcept {
    const auto product0 = _mm256_mul_epu32(a, _mm256_set1_epi64x(philox_multiplier0));
    const auto product1 = _mm256_mul_epu32(c, _mm256_set1_epi64x(philox_multiplier1));
    a = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), b),
                         _mm256_set1_epi64x(key0));
    c = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), d),
                         _mm256_set1_epi64x(key1));
    b = product1;
    d = product0;
  }
};

void store_lower_halves(__m256i x, std::uint32_t* out) noexcept {
  const auto packed = _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(packed));
}

void one_group(const philox_call& call, std::uint64_t group, std::uint32_t* out) noexcept {
  constexpr std::size_t vectors = width / 4;
  std::array<four_blocks, vectors> x;
  for (std::size_t i = 0; i < vectors; ++i) {
    const auto first = static_cast<long long>(static_cast<std::uint32_t>(group * width + 4 * i));
    x[i] = {_mm256_setr_epi64x(first, first + 1, first + 2, first + 3),
            _mm256_set1_epi64x(call.sample), _mm256_set1_epi64x(call.step),
            _mm256_set1_epi64x(call.operation)};
  }
  auto key0 = call.key0;
  auto key1 = call.key1;
  for (int round = 0; round < 10; ++round, key0 += philox_weyl0, key1 += philox_weyl1)
    for (auto& blocks : x)
      blocks.round(key0, key1);
  for (std::size_t i = 0; i < vectors; ++i) {
    store_lower_halves(x[i].a, out + 4 * i);
    store_lower_halves(x[i].b, out + width + 4 * i);
    store_lower_halves(x[i].c, out + 2 * width + 4 * i);
    store_lower_halves(x[i].d, out + 3 * width + 4 * i);
  }
}

#else

void one_group(const philox_call& call, std::uint64_t group, std::uint32_t* out) noexcept {
  for (std::size_t i = 0; i < width; ++i) {
    const auto x = philox(call, static_cast<std::uint32_t>(group * width + i));
    for (std::size_t word = 0; word < 4; ++word)
      out[word * width + i] = x.words[word];
  }
}

#endif

} // namespace

std::uint64_t hash_name(std::string_view name) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

void random_words(const random_key& key, std::uint64_t sample, std::uint64_t first_element,
                  std::span<std::uint32_t> words) noexcept {
  const auto call = prepare_philox(key, sample);
  auto group = first_element / random_group;
  std::size_t done = 0;
  for (; done + random_group <= words.size(); done += random_group)
    one_group(call, group++, words.data() + done);
  if (done < words.size()) {
    std::array<std::uint32_t, random_group> last;
    one_group(call, group, last.data());
    std::copy_n(last.begin(), words.size() - done,
                words.begin() + static_cast<std::ptrdiff_t>(done));
  }
}

} // namespace sluice::kernels::ops
