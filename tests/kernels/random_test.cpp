#include "kernels/ops/random.hpp"

#include <array>

#include "kernels/nn/init.hpp"
#include "kernels/ops/dropout.hpp"
#include "tests/kernels/fixtures.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

using words4 = std::array<std::uint32_t, 4>;

// Straight from the paper.
words4 philox(words4 counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ULL * counter[0];
    const std::uint64_t b = 0xCD9E8D57ULL * counter[2];
    counter = {
      static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(b),
      static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(a)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

std::uint64_t splitmix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

std::vector<double> dropped(stream& on, const tensor& x, std::int64_t first_sample,
                            double probability = 0.3) {
  return values(ops::dropout(on, copy(on, x), {probability, {1, 2, 3, 4}, first_sample}));
}

} // namespace

TEST_CASE("random words are those of Philox4x32-10") {
  // The known answers of the authors' library.
  CHECK(philox({0, 0, 0, 0}, 0, 0) == words4{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  CHECK(philox({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, 0xFFFFFFFF, 0xFFFFFFFF)
        == words4{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});

  const ops::random_key key{0x123456789ABCDEF0, 77, ops::hash_name("h.0.attn"), 5};
  const std::uint64_t sample = 9;
  std::vector<std::uint32_t> words(300);
  ops::random_words(key, sample, 640, words);
  const auto mixed = splitmix(splitmix(key.seed) ^ splitmix(key.layer + 1));
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto e = 640 + i;
    const auto block = philox(
      {static_cast<std::uint32_t>(16 * (e / 64) + e % 16), static_cast<std::uint32_t>(sample),
       static_cast<std::uint32_t>(key.step), key.operation},
      static_cast<std::uint32_t>(mixed), static_cast<std::uint32_t>(mixed >> 32));
    CHECK(words[i] == block[e / 16 % 4]);
  }
}

TEST_CASE("random words differ with each part of their key") {
  const auto first = [](const ops::random_key& key, std::uint64_t sample, std::uint64_t element) {
    std::array<std::uint32_t, 2> words;
    ops::random_words(key, sample, element, words);
    return words;
  };
  const auto base = first({1, 2, 3, 4}, 5, 0);
  CHECK(first({1, 2, 3, 4}, 5, 0) == base);
  CHECK(first({9, 2, 3, 4}, 5, 0) != base);
  CHECK(first({1, 9, 3, 4}, 5, 0) != base);
  CHECK(first({1, 2, 9, 4}, 5, 0) != base);
  CHECK(first({1, 2, 3, 9}, 5, 0) != base);
  CHECK(first({1, 2, 3, 4}, 9, 0) != base);
  CHECK(first({1, 2, 3, 4}, 5, 64) != base);
  CHECK(first({1, 2 + (1ULL << 32), 3, 4}, 5, 0) != base);
  CHECK(first({1, 2, 3, 4}, 5 + (1ULL << 32), 0) != base);
}

TEST_CASE("dropout of a sample does not depend on the micro-batch that it is in") {
  auto on = make_stream();
  const auto whole = random_tensor(on, dtype::float32, {6, 5, 71}, 1);
  const auto together = dropped(on, whole, 10);
  std::vector<double> apart;
  for (const auto& [first, count] : {std::pair{0, 1}, {1, 3}, {4, 2}}) {
    const auto part = dropped(on, whole.slice(first, count), 10 + first);
    apart.insert(apart.end(), part.begin(), part.end());
  }
  CHECK(together == apart);
}

TEST_CASE("dropout drops its share, scales the rest, and works in place or not alike") {
  auto on = make_stream();
  auto ones = on.allocate(dtype::float32, {4, 25000});
  for (auto& element : ones.span<float>())
    element = 1;
  const ops::dropout_mask mask{0.3, {1, 2, 3, 4}, 0};
  const auto fresh = ops::dropout(on, ones, mask);
  CHECK_FALSE(fresh.shares_buffer_with(ones));
  std::size_t zeros = 0;
  for (const auto value : fresh.span<float>()) {
    zeros += value == 0 ? 1 : 0;
    CHECK((value == 0 || value == doctest::Approx(1 / 0.7)));
  }
  CHECK(static_cast<double>(zeros) / 1e5 == doctest::Approx(0.3).epsilon(0.03));
  const auto in_place = ops::dropout(on, std::move(ones), mask);
  CHECK(same_bits(in_place, fresh));
  CHECK(ops::dropout(on, fresh, {}).shares_buffer_with(fresh));
  CHECK_THROWS_AS(ops::dropout(on, fresh, {1.0, {}, 0}), std::invalid_argument);
}

TEST_CASE("initial values depend on seed and name alone and have the wanted deviation") {
  auto on = make_stream();
  const auto draw = [&](std::uint64_t seed, const char* name) {
    auto made = on.allocate(dtype::float64, {101, 203});
    nn::fill_initial(made, nn::normal(0.02), seed, name);
    return values(made);
  };
  const auto one = draw(1, "h.0.attn.c_attn.weight");
  CHECK(draw(1, "h.0.attn.c_attn.weight") == one);
  CHECK(draw(2, "h.0.attn.c_attn.weight") != one);
  CHECK(draw(1, "h.1.attn.c_attn.weight") != one);
  double sum = 0;
  double squares = 0;
  for (const auto value : one) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(one.size());
  CHECK(std::abs(sum / count) < 5e-4);
  CHECK(std::sqrt(squares / count) == doctest::Approx(0.02).epsilon(0.02));
}
