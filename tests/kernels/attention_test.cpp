#include "kernels/ops/attention.hpp"

#include "tests/kernels/fixtures.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

// The definition, element by element.
std::vector<double> naive(const tensor& packed, std::int64_t heads) {
  const auto samples = packed.shape()[0];
  const auto length = packed.shape()[1];
  const auto width = packed.shape()[2] / 3;
  const auto depth = width / heads;
  const auto at = [&](std::int64_t s, std::int64_t t, int part, std::int64_t c) {
    return element(packed, ((s * length + t) * 3 + part) * width + c);
  };
  std::vector<double> output;
  for (std::int64_t s = 0; s < samples; ++s)
    for (std::int64_t i = 0; i < length; ++i)
      for (std::int64_t c = 0; c < width; ++c) {
        const auto first = c / depth * depth;
        double sum = 0;
        double mixed = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::int64_t d = first; d < first + depth; ++d)
            score += at(s, i, 0, d) * at(s, j, 1, d);
          const double weight = std::exp(score / std::sqrt(static_cast<double>(depth)));
          sum += weight;
          mixed += weight * at(s, j, 2, c);
        }
        output.push_back(mixed / sum);
      }
  return output;
}

} // namespace

TEST_CASE("attention is its definition at odd sizes") {
  auto on = make_stream();
  struct attention_case {
    std::int64_t samples, length, heads, depth;
  };
  for (const auto type : {dtype::float32, dtype::float64})
    for (const auto& c : {attention_case{1, 1, 1, 1},
                          {2, 7, 3, 5},
                          {1, 33, 2, 8},
                          {1, 129, 1, 3},
                          {1, 261, 2, 4}}) {
      INFO(name(type), " length ", c.length);
      const auto packed =
        random_tensor(on, type, {c.samples, c.length, 3 * c.heads * c.depth}, 1, 2);
      const auto got = ops::causal_attention(on, packed, c.heads, {});
      const double tolerance = type == dtype::float64 ? 1e-12 : 1e-5;
      CHECK(close(values(got.output), naive(packed, c.heads), tolerance, tolerance));
    }
}

TEST_CASE("attention with dropout does not depend on the micro-batch a sample is in") {
  auto on = make_stream();
  const auto packed = random_tensor(on, dtype::float32, {4, 11, 18}, 1);
  const ops::dropout_mask mask{0.3, {1, 2, 3, 4}, 20};
  auto later = mask;
  later.first_sample = 21;
  const auto whole = ops::causal_attention(on, packed, 2, mask);
  const auto part = ops::causal_attention(on, packed.slice(1, 2), 2, later);
  CHECK(same_bits(part.output, copy(on, whole.output.slice(1, 2))));
}

TEST_CASE("attention looks at no later position") {
  auto on = make_stream();
  auto packed = random_tensor(on, dtype::float32, {1, 150, 12}, 1);
  const auto before =
    copy(on, ops::causal_attention(on, packed, 2, {}).output.reshaped({150, 4}).slice(0, 140));
  for (std::int64_t i = 140 * 12; i < 150 * 12; ++i)
    packed.data<float>()[i] = 1e30F;
  const auto after =
    copy(on, ops::causal_attention(on, packed, 2, {}).output.reshaped({150, 4}).slice(0, 140));
  CHECK(same_bits(before, after));
}

TEST_CASE("attention refuses a width that its heads do not divide") {
  auto on = make_stream();
  const auto packed = random_tensor(on, dtype::float32, {1, 2, 12}, 1);
  CHECK_THROWS_WITH_AS(ops::causal_attention(on, packed, 3, {}),
                       "attention: [1, 2, 12] does not hold queries, keys and values of 3 heads",
                       std::invalid_argument);
}
