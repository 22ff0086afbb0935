#include <limits>
#include <numbers>

#include "kernels/ops/add.hpp"
#include "kernels/ops/cross_entropy.hpp"
#include "kernels/ops/embedding.hpp"
#include "kernels/ops/gelu.hpp"
#include "kernels/ops/layer_norm.hpp"
#include "kernels/ops/linear.hpp"
#include "kernels/ops/math.hpp"
#include "kernels/ops/sum_of_squares.hpp"
#include "tests/kernels/fixtures.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

constexpr auto types = {dtype::float32, dtype::float64};

double tolerance(dtype type) {
  return type == dtype::float64 ? 1e-13 : 2e-6;
}

tensor targets_of(stream& on, std::initializer_list<std::int32_t> targets) {
  auto made = on.allocate(dtype::int32, {static_cast<std::int64_t>(targets.size())});
  std::copy(targets.begin(), targets.end(), made.data<std::int32_t>());
  return made;
}

} // namespace

TEST_CASE("the exponential is within two units in the last place") {
  double worst = 0;
  for (double x = -86.9; x < 88.3; x += 0.00137) {
    const auto rounded = static_cast<float>(x);
    const double expected = std::exp(static_cast<double>(rounded));
    const double unit = expected * std::numeric_limits<float>::epsilon() / 2;
    worst = std::max(worst, std::abs(ops::exponential(rounded) - expected) / unit);
  }
  CHECK(worst < 4); // in halves of such a unit, at worst
  CHECK(ops::exponential(0.0F) == 1.0F);
  CHECK(ops::exponential(-std::numeric_limits<float>::infinity()) < 1e-37F);
  CHECK(std::isinf(ops::exponential(89.0F)));
  CHECK(std::isinf(ops::exponential(std::numeric_limits<float>::infinity())));
  CHECK(std::isnan(ops::exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("GELU is that of GPT-2, also far out") {
  auto on = make_stream();
  for (const auto type : types) {
    auto x = random_tensor(on, type, {7, 131}, 1, 12);
    std::vector<double> expected;
    for (const auto v : values(x))
      expected.push_back(
        v / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v))));
    CHECK(close(values(ops::gelu(on, x)), expected, tolerance(type), tolerance(type)));
  }
}

TEST_CASE("layer norm is its formula, and again from its statistics the same bits") {
  auto on = make_stream();
  for (const auto type : types)
    for (const std::int64_t columns : {1, 5, 16, 67}) {
      const auto x = random_tensor(on, type, {3, 2, columns}, 1, 3);
      const auto weight = random_tensor(on, type, {columns}, 2);
      const auto bias = random_tensor(on, type, {columns}, 3);
      std::vector<double> expected;
      for (std::int64_t row = 0; row < 6; ++row) {
        double mean = 0;
        double variance = 0;
        for (std::int64_t j = 0; j < columns; ++j)
          mean += element(x, row * columns + j) / static_cast<double>(columns);
        for (std::int64_t j = 0; j < columns; ++j)
          variance +=
            std::pow(element(x, row * columns + j) - mean, 2) / static_cast<double>(columns);
        for (std::int64_t j = 0; j < columns; ++j)
          expected.push_back((element(x, row * columns + j) - mean) / std::sqrt(variance + 1e-5)
                               * element(weight, j)
                             + element(bias, j));
      }
      const auto [output, statistics] = ops::layer_norm(on, x, weight, bias);
      CHECK(close(values(output), expected, columns == 1 ? 1e-3 : 4 * tolerance(type), 1e-5));
      CHECK(same_bits(ops::layer_norm_again(on, x, statistics, weight, bias), output));
    }
}

TEST_CASE("cross-entropy sums the losses of valid rows and leaves the softmax") {
  auto on = make_stream();
  for (const auto type : types) {
    auto logits = random_tensor(on, type, {4, 37}, 1, 5);
    const auto before = values(logits);
    const auto targets = targets_of(on, {36, -1, 0, 17});
    const auto loss = ops::cross_entropy(on, logits, targets);
    std::vector<double> softmax;
    double expected = 0;
    for (std::size_t row = 0; row < 4; ++row) {
      double sum = 0;
      for (std::size_t j = 0; j < 37; ++j)
        sum += std::exp(before[row * 37 + j]);
      for (std::size_t j = 0; j < 37; ++j)
        softmax.push_back(std::exp(before[row * 37 + j]) / sum);
      const auto target = targets.data<std::int32_t>()[row];
      if (target >= 0)
        expected -= std::log(softmax[row * 37 + static_cast<std::size_t>(target)]);
    }
    CHECK(loss.data<double>()[0] == doctest::Approx(expected).epsilon(tolerance(type)));
    CHECK(close(values(logits), softmax, tolerance(type), tolerance(type)));

    ops::cross_entropy_backward(on, logits, targets, 0.5);
    for (std::size_t row = 0; row < 4; ++row)
      for (std::size_t j = 0; j < 37; ++j) {
        const auto target = targets.data<std::int32_t>()[row];
        const auto hit = target == static_cast<std::int32_t>(j) ? 1.0 : 0.0;
        softmax[row * 37 + j] = target < 0 ? 0 : (softmax[row * 37 + j] - hit) * 0.5;
      }
    CHECK(close(values(logits), softmax, tolerance(type), tolerance(type)));
    CHECK(ops::valid_targets(targets) == 3);
  }
}

TEST_CASE("rows that are all ignored have no loss and no gradient, and no NaN") {
  auto on = make_stream();
  auto logits = random_tensor(on, dtype::float32, {3, 9}, 1);
  const auto targets = targets_of(on, {-1, -1, -1});
  CHECK(ops::cross_entropy(on, logits, targets).data<double>()[0] == 0);
  ops::cross_entropy_backward(on, logits, targets, 1);
  CHECK(values(logits) == std::vector<double>(27, 0.0));
}

TEST_CASE("large logits do not overflow, and what is not finite shows in the loss") {
  auto on = make_stream();
  auto logits = on.zeros(dtype::float32, {1, 20});
  const auto targets = targets_of(on, {3});
  SUBCASE("large") {
    logits.data<float>()[3] = 3e38F;
    logits.data<float>()[7] = -3e38F;
    CHECK(ops::cross_entropy(on, logits, targets).data<double>()[0] == 0);
  }
  SUBCASE("a NaN in the vector part or in the tail") {
    for (const auto at : {0, 5, 19}) {
      auto damaged = on.zeros(dtype::float32, {1, 20});
      damaged.data<float>()[at] = std::numeric_limits<float>::quiet_NaN();
      CHECK(std::isnan(ops::cross_entropy(on, damaged, targets).data<double>()[0]));
    }
  }
  SUBCASE("infinity") {
    logits.data<float>()[18] = std::numeric_limits<float>::infinity();
    CHECK_FALSE(std::isfinite(ops::cross_entropy(on, logits, targets).data<double>()[0]));
  }
}

TEST_CASE("a target outside the classes is refused") {
  auto on = make_stream();
  auto logits = random_tensor(on, dtype::float32, {2, 9}, 1);
  CHECK_THROWS_WITH_AS(ops::cross_entropy(on, logits, targets_of(on, {0, 9})),
                       "cross_entropy: target 9 among 9 classes", std::out_of_range);
  CHECK_THROWS_AS(ops::cross_entropy(on, logits, targets_of(on, {0, -2})), std::out_of_range);
  CHECK_THROWS_AS(ops::cross_entropy(on, logits, targets_of(on, {0})), std::invalid_argument);
}

TEST_CASE("the embedding adds token and position, and refuses ids and lengths it does not know") {
  auto on = make_stream();
  const auto tokens = random_tensor(on, dtype::float32, {11, 3}, 1);
  const auto positions = random_tensor(on, dtype::float32, {5, 3}, 2);
  auto ids = random_ids(on, {2, 4}, 3, 11);
  const auto output = ops::embedding(on, ids, tokens, positions);
  for (std::int64_t i = 0; i < 8; ++i)
    for (std::int64_t j = 0; j < 3; ++j)
      CHECK(element(output, i * 3 + j)
            == doctest::Approx(element(tokens, ids.data<std::int32_t>()[i] * 3 + j)
                               + element(positions, i % 4 * 3 + j)));
  ids.data<std::int32_t>()[5] = 11;
  CHECK_THROWS_WITH_AS(ops::embedding(on, ids, tokens, positions),
                       "embedding: id 11 in a vocabulary of 11", std::out_of_range);
  CHECK_THROWS_WITH_AS(ops::embedding(on, random_ids(on, {1, 6}, 1, 11), tokens, positions),
                       "embedding: a sequence of 6 in a model of length 5", std::out_of_range);
}

TEST_CASE("linear gradients accumulate rows of any number") {
  auto on = make_stream();
  for (const std::int64_t rows : {1, 3, 4, 9}) {
    const auto dy = random_tensor(on, dtype::float64, {rows, 5}, 1);
    const auto x = random_tensor(on, dtype::float64, {rows, 7}, 2);
    auto dw = random_tensor(on, dtype::float64, {5, 7}, 3);
    auto db = random_tensor(on, dtype::float64, {5}, 4);
    auto expected_w = values(dw);
    auto expected_b = values(db);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t o = 0; o < 5; ++o) {
        expected_b[static_cast<std::size_t>(o)] += element(dy, i * 5 + o);
        for (std::int64_t j = 0; j < 7; ++j)
          expected_w[static_cast<std::size_t>(o * 7 + j)] +=
            element(dy, i * 5 + o) * element(x, i * 7 + j);
      }
    ops::linear_weight_gradient(on, dy, x, dw, db);
    CHECK(close(values(dw), expected_w, 1e-13, 1e-13));
    CHECK(close(values(db), expected_b, 1e-13, 1e-13));
  }
}

TEST_CASE("a sum of squares is exact to float64 and finite exactly when all elements are") {
  auto on = make_stream();
  auto x = random_tensor(on, dtype::float32, {1237}, 1, 100);
  double expected = 0;
  for (const auto v : values(x))
    expected += v * v;
  CHECK(ops::sum_of_squares(on, x) == doctest::Approx(expected).epsilon(1e-14));
  x.data<float>()[17] = 3e38F;
  CHECK(std::isfinite(ops::sum_of_squares(on, x)));
  x.data<float>()[1236] = -std::numeric_limits<float>::infinity();
  CHECK_FALSE(std::isfinite(ops::sum_of_squares(on, x)));
  CHECK(ops::sum_of_squares(on, on.zeros(dtype::float32, {0})) == 0);
}

TEST_CASE("operations refuse operands that do not fit, and name them") {
  auto on = make_stream();
  const auto a = random_tensor(on, dtype::float32, {2, 3}, 1);
  const auto b = random_tensor(on, dtype::float32, {3, 2}, 1);
  const auto ids = random_ids(on, {2, 3}, 1, 4);
  CHECK_THROWS_WITH_AS(ops::add(on, a, b),
                       "add: the right operand is [3, 2] of F32, expected [2, 3] of F32",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(ops::gelu(on, ids), "gelu: elements of I32, expected F32 or F64",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(ops::add(on, a, {}), "add: the right operand is absent",
                       std::invalid_argument);
}
