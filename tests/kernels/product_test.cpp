#include "kernels/ops/product.hpp"

#include "tests/kernels/fixtures.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

struct product_case {
  std::int64_t m, n, k;
  bool a_transposed = false;
  bool b_transposed = false;
  ops::write_mode mode = ops::write_mode::overwrite;
  bool biased = false;
};

double naive(const product_case& c, const tensor& a, const tensor& b, std::int64_t i,
             std::int64_t j) {
  double sum = 0;
  for (std::int64_t p = 0; p < c.k; ++p)
    sum += element(a, c.a_transposed ? p * c.m + i : i * c.k + p)
         * element(b, c.b_transposed ? j * c.k + p : p * c.n + j);
  return sum;
}

void check(stream& on, dtype type, const product_case& c) {
  const auto a = random_tensor(on, type, c.a_transposed ? shape{c.k, c.m} : shape{c.m, c.k}, 1);
  const auto b = random_tensor(on, type, c.b_transposed ? shape{c.n, c.k} : shape{c.k, c.n}, 2);
  const auto before = random_tensor(on, type, {c.m, c.n}, 3);
  const auto bias = random_tensor(on, type, {c.n}, 4);
  auto result = copy(on, before);
  const auto left = ops::matrix_of(a);
  const auto right = ops::matrix_of(b);
  ops::product(on, c.a_transposed ? left.transposed() : left,
               c.b_transposed ? right.transposed() : right, ops::matrix_of(result), c.mode,
               c.biased ? bias : tensor{});
  std::vector<double> expected;
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t j = 0; j < c.n; ++j) {
      const auto old = c.mode == ops::write_mode::accumulate ? element(before, i * c.n + j) : 0;
      expected.push_back(naive(c, a, b, i, j) + old + (c.biased ? element(bias, j) : 0));
    }
  const double tolerance = type == dtype::float64 ? 1e-13 : 1e-6;
  CHECK(close(values(result), expected, tolerance * static_cast<double>(c.k + 2), tolerance));
}

} // namespace

TEST_CASE("a product is the naive one at odd sizes, in all transpositions and modes") {
  auto on = make_stream();
  for (const auto type : {dtype::float32, dtype::float64})
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                  {3, 5, 7},
                                  {1, 17, 33},
                                  {31, 1, 2},
                                  {33, 65, 17},
                                  {64, 64, 64},
                                  {97, 130, 71}})
      for (const bool a_transposed : {false, true})
        for (const bool b_transposed : {false, true})
          for (const auto mode : {ops::write_mode::overwrite, ops::write_mode::accumulate})
            for (const bool biased : {false, true}) {
              INFO(name(type), " m ", m, " n ", n, " k ", k, " a^T ", a_transposed, " b^T ",
                   b_transposed, " biased ", biased);
              check(on, type, {m, n, k, a_transposed, b_transposed, mode, biased});
            }
}

TEST_CASE("a product of blocks inside larger tensors reads and writes nothing else") {
  auto on = make_stream();
  const auto a = random_tensor(on, dtype::float32, {20, 30}, 1);
  const auto b = random_tensor(on, dtype::float32, {25, 40}, 2);
  auto c = random_tensor(on, dtype::float32, {22, 33}, 3);
  const auto before = copy(on, c);
  ops::product(on, ops::matrix_of(a).block(3, 5, 11, 13),
               ops::matrix_of(b).block(2, 7, 9, 13).transposed(),
               ops::matrix_of(c).block(4, 6, 11, 9), ops::write_mode::overwrite);
  for (std::int64_t i = 0; i < 22; ++i)
    for (std::int64_t j = 0; j < 33; ++j) {
      double expected = element(before, i * 33 + j);
      if (i >= 4 && i < 15 && j >= 6 && j < 15) {
        expected = 0;
        for (std::int64_t p = 0; p < 13; ++p)
          expected += element(a, (i - 4 + 3) * 30 + 5 + p) * element(b, (j - 6 + 2) * 40 + 7 + p);
      }
      CHECK(element(c, i * 33 + j) == doctest::Approx(expected).epsilon(1e-5));
    }
}

TEST_CASE("a product without terms is zero, or leaves what it adds to") {
  auto on = make_stream();
  const auto a = on.zeros(dtype::float32, {2, 0});
  const auto b = on.zeros(dtype::float32, {0, 3});
  auto c = random_tensor(on, dtype::float32, {2, 3}, 1);
  const auto before = copy(on, c);
  ops::product(on, ops::matrix_of(a), ops::matrix_of(b), ops::matrix_of(c),
               ops::write_mode::accumulate);
  CHECK(same_bits(c, before));
  ops::product(on, ops::matrix_of(a), ops::matrix_of(b), ops::matrix_of(c),
               ops::write_mode::overwrite);
  CHECK(values(c) == std::vector<double>(6, 0.0));
}

TEST_CASE("a product has the same bits on another stream and at another address") {
  auto on = make_stream();
  auto other = make_stream();
  const auto shift = other.allocate(dtype::float32, {1000});
  const auto run = [](stream& where) {
    const auto a = random_tensor(where, dtype::float32, {65, 130}, 1);
    const auto b = random_tensor(where, dtype::float32, {77, 130}, 2);
    auto c = where.allocate(dtype::float32, {65, 77});
    ops::product(where, ops::matrix_of(a), ops::matrix_of(b).transposed(), ops::matrix_of(c),
                 ops::write_mode::overwrite);
    return c;
  };
  CHECK(same_bits(run(on), run(other)));
}

TEST_CASE("a product refuses operands that do not fit, and says which") {
  auto on = make_stream();
  const auto a = random_tensor(on, dtype::float32, {2, 3}, 1);
  const auto b = random_tensor(on, dtype::float32, {4, 5}, 1);
  const auto d = random_tensor(on, dtype::float64, {3, 5}, 1);
  auto c = random_tensor(on, dtype::float32, {2, 5}, 1);
  const auto run = [&](const tensor& right) {
    ops::product(on, ops::matrix_of(a), ops::matrix_of(right), ops::matrix_of(c),
                 ops::write_mode::overwrite);
  };
  CHECK_THROWS_WITH_AS(run(b), "product: [2, 3] x [4, 5] does not give [2, 5]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(run(d), "product: types F32, F64 and F32", std::invalid_argument);
}
