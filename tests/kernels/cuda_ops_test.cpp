// Every kernel against the processor's float64, forward and backward, at odd sizes, in float32 and
// bfloat16, in three orders of lanes. On emulated devices: this shows arithmetic and order, not
// speed.

#include "kernels/ops/adamw.hpp"
#include "kernels/ops/add.hpp"
#include "kernels/ops/attention.hpp"
#include "kernels/ops/cast.hpp"
#include "kernels/ops/cross_entropy.hpp"
#include "kernels/ops/dropout.hpp"
#include "kernels/ops/embedding.hpp"
#include "kernels/ops/gelu.hpp"
#include "kernels/ops/layer_norm.hpp"
#include "kernels/ops/linear.hpp"
#include "kernels/ops/sgd.hpp"
#include "kernels/ops/sum_of_squares.hpp"
#include "tests/kernels/cuda_fixtures.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;
namespace emulation = sluice::emulation;

namespace {

struct precision {
  dtype type;
  tolerance within;      ///< of one operation
  tolerance accumulated; ///< of long sums
};

constexpr precision single{dtype::float32, {2e-6, 2e-6}, {2e-5, 2e-5}};
constexpr precision brief{dtype::bfloat16, {8e-3, 8e-3}, {5e-2, 2e-2}};

tensor floats(gpu_trial& in, const shape& extents, unsigned seed, double scale = 1) {
  return random_tensor(in.host(), dtype::float32, extents, seed, scale);
}

/// What gradients were summed up before, in their own type.
tensor sums_from(stream& on, const tensor& operand) {
  return ops::cast(on, operand, accumulation_type(operand.type()));
}

} // namespace

#define FOR_EACH_PRECISION(with)                                                                   \
  precision with = single;                                                                         \
  SUBCASE("float32") {}                                                                            \
  SUBCASE("bfloat16") {                                                                            \
    with = brief;                                                                                  \
  }

TEST_CASE("a GPU adds, and adds in place") {
  FOR_EACH_PRECISION(with)
  gpu_trial trial(with.type);
  trial.run(
    list(floats(trial, {37, 7}, 1), floats(trial, {37, 7}, 2)),
    [](stream& on, tensor_list x) {
      auto sum = ops::add(on, x[0], x[1]);
      ops::add_into(on, x[0], sum);
      return list(std::move(sum), std::move(x[0]));
    },
    with.within);
}

TEST_CASE("a GPU's GELU and its gradient") {
  FOR_EACH_PRECISION(with)
  gpu_trial trial(with.type);
  trial.run(list(floats(trial, {521}, 1, 6), floats(trial, {521}, 2)),
            [](stream& on, tensor_list x) {
              return list(ops::gelu(on, x[0]), ops::gelu_backward(on, x[1], x[0]));
            },
            {2 * with.within.absolute, 2 * with.within.relative});
}

TEST_CASE("a GPU's layer norm, twice, and its gradients") {
  FOR_EACH_PRECISION(with)
  std::int64_t rows = 13;
  std::int64_t columns = 45;
  SUBCASE("many rows: several partial sums of columns") {
    rows = 261;
  }
  SUBCASE("fewer columns than lanes") {
    columns = 5;
  }
  gpu_trial trial(with.type);
  trial.run(list(floats(trial, {rows, columns}, 1, 3), floats(trial, {columns}, 2),
                 floats(trial, {columns}, 3), floats(trial, {rows, columns}, 4)),
            [](stream& on, tensor_list x) {
              auto [output, statistics] = ops::layer_norm(on, x[0], x[1], x[2]);
              auto again = ops::layer_norm_again(on, x[0], statistics, x[1], x[2]);
              auto [input, affine] = ops::layer_norm_backward(on, x[3], x[0], statistics, x[1]);
              return list(std::move(output), std::move(statistics), std::move(again),
                          std::move(input), std::move(affine));
            },
            {10 * with.within.absolute, with.accumulated.relative});
}

TEST_CASE("a GPU's linear layer and its gradients") {
  FOR_EACH_PRECISION(with)
  gpu_trial trial(with.type);
  trial.run(list(floats(trial, {3, 43, 19}, 1), floats(trial, {23, 19}, 2), floats(trial, {23}, 3),
                 floats(trial, {3, 43, 23}, 4), floats(trial, {23, 19}, 5), floats(trial, {23}, 6)),
            [](stream& on, tensor_list x) {
              auto output = ops::linear(on, x[0], x[1], x[2]);
              auto bare = ops::linear(on, x[0], x[1]);
              auto input = ops::linear_input_gradient(on, x[3], x[1]);
              auto weight = sums_from(on, x[4]);
              auto bias = sums_from(on, x[5]);
              ops::linear_weight_gradient(on, x[3], x[0], weight, bias);
              return list(std::move(output), std::move(bare), std::move(input), std::move(weight),
                          std::move(bias));
            },
            {10 * with.within.absolute, with.accumulated.relative});
}

TEST_CASE("a GPU's linear layer with its GELU, and the gradient through both, fused or not") {
  FOR_EACH_PRECISION(with)
  std::int64_t columns = 24;
  SUBCASE("rows that cuBLASLt takes for a fused GELU") {}
  SUBCASE("others") {
    columns = 23;
  }
  gpu_trial trial(with.type);
  trial.run(list(floats(trial, {3, 43, 19}, 1), floats(trial, {columns, 19}, 2, 2),
                 floats(trial, {columns}, 3), floats(trial, {3, 43, 13}, 4),
                 floats(trial, {13, columns}, 5)),
            [](stream& on, tensor_list x) {
              auto [output, inner] = ops::linear_gelu(on, x[0], x[1], x[2]);
              auto gradient = ops::linear_gelu_input_gradient(on, x[3], x[4], inner);
              return list(std::move(output), std::move(inner), std::move(gradient));
            },
            {10 * with.within.absolute, with.accumulated.relative});
}

TEST_CASE("a GPU drops what the processor drops") {
  FOR_EACH_PRECISION(with)
  gpu_trial trial(with.type);
  trial.run(
    list(floats(trial, {3, 7, 31}, 1)),
    [](stream& on, tensor_list x) {
      const ops::dropout_mask mask{0.3, {11, (1ULL << 40) + 3, 17, 5}, (1LL << 33) - 1};
      return list(ops::dropout(on, x[0], mask));
    },
    with.within);
}

TEST_CASE("a GPU's embedding, and its gradients in the processor's order") {
  FOR_EACH_PRECISION(with)
  gpu_trial trial(with.type);
  trial.run(list(random_ids(trial.host(), {3, 11}, 7, 9), floats(trial, {9, 35}, 1),
                 floats(trial, {13, 35}, 2), floats(trial, {3, 11, 35}, 3)),
            [](stream& on, tensor_list x) {
              auto output = ops::embedding(on, x[0], x[1], x[2]);
              auto tokens = sums_from(on, x[1]);
              auto positions = sums_from(on, x[2]);
              ops::embedding_backward(on, x[3], x[0], tokens, positions);
              return list(std::move(output), std::move(tokens), std::move(positions));
            },
            {with.accumulated.absolute, with.within.relative});
}

TEST_CASE("a GPU's attention and its gradients") {
  FOR_EACH_PRECISION(with)
  std::int64_t length = 13;
  std::int64_t depth = 10;
  double probability = 0;
  SUBCASE("shorter than a tile") {}
  SUBCASE("longer than a tile, with dropout") {
    length = 71;
    probability = 0.2;
  }
  SUBCASE("deep heads") {
    depth = 70;
  }
  gpu_trial trial(with.type);
  const std::int64_t heads = 2;
  trial.run(list(floats(trial, {2, length, 3 * heads * depth}, 1, 2),
                 floats(trial, {2, length, heads * depth}, 2)),
            [&](stream& on, tensor_list x) {
              const ops::dropout_mask mask{probability, {5, 6, 7, 8}, 9};
              auto [output, sums] = ops::causal_attention(on, x[0], heads, mask);
              auto gradient = ops::causal_attention_backward(on, x[1], x[0], sums, mask);
              return list(std::move(output), std::move(sums), std::move(gradient));
            },
            {with.accumulated.absolute, with.accumulated.relative});
}

TEST_CASE("a GPU's cross-entropy and its gradient, over a vocabulary of several pieces") {
  FOR_EACH_PRECISION(with)
  std::int64_t classes = 777;
  SUBCASE("one class") {
    classes = 1;
  }
  SUBCASE("fewer classes than threads") {
    classes = 3;
  }
  SUBCASE("one short of a piece, and one more than it") {
    SUBCASE("short") {
      classes = 255;
    }
    SUBCASE("more") {
      classes = 257;
    }
  }
  SUBCASE("several pieces") {}
  SUBCASE("many pieces") {
    classes = 5003;
  }
  gpu_trial trial(with.type);
  auto targets = random_ids(trial.host(), {9}, 4, static_cast<std::int32_t>(classes));
  targets.data<std::int32_t>()[4] = ops::ignored_target;
  trial.run(list(floats(trial, {9, classes}, 1, 8), targets),
            [](stream& on, tensor_list x) {
              auto loss = ops::cross_entropy(on, x[0], x[1]);
              auto probabilities = copied(on, x[0]);
              ops::cross_entropy_backward(on, x[0], x[1], 0.25);
              return list(std::move(loss), std::move(probabilities), std::move(x[0]));
            },
            {with.within.absolute, 4 * with.within.relative});
}

TEST_CASE("a GPU's cross-entropy gives classes of -infinity no share, and takes no second tensor") {
  gpu_trial trial(dtype::float32);
  auto logits = floats(trial, {4, 600}, 1);
  for (std::int64_t i = 0; i < 600; ++i) // some threads see nothing else
    if (i % 256 > 100)
      logits.data<float>()[600 + i] = -std::numeric_limits<float>::infinity();
  const auto targets = random_ids(trial.host(), {4}, 2, 100);
  trial.run(
    list(logits, targets),
    [](stream& on, tensor_list x) {
      const auto before = on.pool().usage().device_bytes;
      auto loss = ops::cross_entropy(on, x[0], x[1]);
      CHECK(on.pool().usage().device_bytes - before < x[0].bytes() / 2);
      return list(std::move(loss), std::move(x[0]));
    },
    single.accumulated);
}

TEST_CASE("a GPU's cross-entropy is NaN for a target that does not exist, and for a NaN") {
  gpu_trial trial(dtype::float32);
  stream gpu(std::make_shared<cuda::device>(0));
  auto targets = random_ids(trial.host(), {3}, 4, 5);
  auto logits = floats(trial, {3, 5}, 1);
  SUBCASE("a target beyond the classes") {
    targets.data<std::int32_t>()[1] = 5;
  }
  SUBCASE("a negative target that is not the ignored one") {
    targets.data<std::int32_t>()[1] = -2;
  }
  SUBCASE("a NaN among the logits") {
    logits.data<float>()[7] = NAN;
  }
  auto on_gpu = copied(gpu, logits);
  const auto loss = ops::cross_entropy(gpu, on_gpu, copied(gpu, targets));
  CHECK(std::isnan(read_scalar(loss)));
  CHECK(emulation::violations() == 0);
}

TEST_CASE("a GPU's AdamW and SGD") {
  gpu_trial trial(dtype::float32);
  trial.run(
    list(floats(trial, {301}, 1), floats(trial, {301}, 2), floats(trial, {301}, 3, 0.1),
         floats(trial, {301}, 4, 0.1), floats(trial, {301}, 5)),
    [](stream& on, tensor_list x) {
      auto value = copied(on, x[0]);
      auto zero = copied(on, x[3]);
      set_zero(zero);
      const ops::adamw_operand only{value, x[1], x[2], zero};
      ops::adamw(on, std::span(&only, 1),
                 {.learning_rate = 0.01, .weight_decay = 0.1, .gradient_scale = 0.5, .step = 3});
      auto still = copied(on, x[0]);
      tensor none;
      ops::sgd(on, still, x[1], none, {.learning_rate = 0.1, .weight_decay = 0.01});
      ops::sgd(on, x[0], x[1], x[4], {.learning_rate = 0.1, .momentum = 0.9, .gradient_scale = 2});
      return list(std::move(value), std::move(x[2]), std::move(zero), std::move(still),
                  std::move(x[0]), std::move(x[4]));
    },
    {4e-6, 4e-6});
}

TEST_CASE("a GPU updates many tensors of any size at once, some that decay and some that do not") {
  gpu_trial trial(dtype::float32);
  tensor_list operands; // 150 x 4: more than two tables hold; from no element to several pieces
  unsigned seed = 1;
  for (std::int64_t i = 0; i < 150; ++i) {
    const std::int64_t count = i % 50 == 7 ? 9001 + i : i % 40 == 0 ? 0 : 1 + i % 23 * 7;
    for (const double scale : {1.0, 1.0, 0.1, 0.0})
      operands.push_back(floats(trial, {count}, seed++, scale));
  }
  trial.run(operands,
            [](stream& on, tensor_list x) {
              std::vector<ops::adamw_operand> all;
              for (std::size_t i = 0; i < x.size(); i += 4)
                all.push_back({x[i], x[i + 1], x[i + 2], x[i + 3], i % 3 == 0});
              ops::adamw(
                on, all,
                {.learning_rate = 0.01, .weight_decay = 0.1, .gradient_scale = 0.5, .step = 3});
              return x;
            },
            {4e-6, 4e-6});
}

TEST_CASE("a GPU's sums of squares of many tensors are those of each alone, bit for bit") {
  FOR_EACH_PRECISION(with)
  gpu_trial trial(with.type);
  stream gpu(std::make_shared<cuda::device>(0));
  std::vector<tensor> all; // more than one table holds
  std::vector<double> expected;
  for (std::int64_t i = 0; i < 400; ++i) {
    const auto x = converted(
      trial.host(), floats(trial, {i % 97 == 5 ? 8191 + i : i % 31}, 1U + unsigned(i)), with.type);
    all.push_back(copied(gpu, x));
    expected.push_back(ops::sum_of_squares(trial.host(), widened(trial.host(), x)));
  }
  const auto together = ops::sums_of_squares(gpu, all);
  CHECK(close(together, expected, 1e-12, 1e-12));
  for (std::size_t i = 0; i < all.size(); ++i)
    CHECK(ops::sum_of_squares(gpu, all[i]) == together[i]);
  CHECK(emulation::violations() == 0);
}

TEST_CASE("a GPU's sums of squares are float64, and wait once for many tensors") {
  FOR_EACH_PRECISION(with)
  gpu_trial trial(with.type);
  trial.run(list(floats(trial, {30011}, 1), floats(trial, {3}, 2)),
            [](stream& on, tensor_list x) {
              const auto sums = ops::sums_of_squares(on, std::span(x.data(), x.size()));
              stream host(make_cpu_device());
              auto result = host.allocate(dtype::float64, {2});
              std::ranges::copy(sums, result.data<double>());
              return list(std::move(result));
            },
            {1e-9, 1e-12});
}

TEST_CASE("a GPU casts to bfloat16 and back with one rounding") {
  gpu_trial trial(dtype::float32);
  stream gpu(std::make_shared<cuda::device>(0));
  const auto x = floats(trial, {133}, 1);
  const auto brief_x = ops::cast(gpu, copied(gpu, x), dtype::bfloat16);
  CHECK(same_bits(copied(trial.host(), brief_x), converted(trial.host(), x, dtype::bfloat16)));
  const auto back = copied(trial.host(), ops::cast(gpu, brief_x, dtype::float32));
  CHECK(values(back) == values(widened(trial.host(), copied(trial.host(), brief_x))));
}

TEST_CASE("masters are rounded into weights, many at once, each as a cast alone would do it") {
  gpu_trial trial(dtype::float32);
  stream gpu(std::make_shared<cuda::device>(0));
  for (auto* on : {&trial.host(), &gpu}) {
    std::vector<tensor> from;
    std::vector<tensor> to;
    std::vector<ops::rounding> all;
    for (std::int64_t i = 0; i < 250; ++i) {
      const std::int64_t count = i % 60 == 5 ? 8193 : i % 17;
      from.push_back(copied(*on, floats(trial, {count}, 1U + unsigned(i))));
      to.push_back(on->allocate(dtype::bfloat16, {count}));
    }
    for (std::size_t i = 0; i < from.size(); ++i)
      all.push_back({from[i], to[i]});
    ops::round_all(*on, all);
    for (std::size_t i = 0; i < from.size(); ++i)
      CHECK(same_bits(copied(trial.host(), to[i]),
                      converted(trial.host(), copied(trial.host(), from[i]), dtype::bfloat16)));
  }
  CHECK(emulation::violations() == 0);
}

TEST_CASE("a GPU refuses types that it has no kernel for") {
  const emulation::test::session run;
  stream gpu(std::make_shared<cuda::device>(0));
  const auto x = gpu.zeros(dtype::float64, {4});
  CHECK_THROWS_WITH_AS(ops::gelu(gpu, x), "gelu: elements of F64, expected F32 or BF16 on a GPU",
                       std::invalid_argument);
}
