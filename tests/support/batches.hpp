#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "actors/batch.hpp"
#include "kernels/buffer_pool.hpp"

namespace sluice::tests {

/// Batches of random token ids for a small GPT. Part i has samples[i] sequences; a share of the
/// targets is ignored (-1).
class token_batches {
public:
  token_batches(std::int64_t vocabulary, std::int64_t length, double ignored = 0.0)
    : vocabulary_(vocabulary),
      length_(length),
      ignored_(ignored) {}

  actors::batch make(std::uint64_t seed, std::span<const std::int64_t> samples) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<std::int32_t> token(0,
                                                      static_cast<std::int32_t>(vocabulary_ - 1));
    std::bernoulli_distribution ignore(ignored_);
    actors::batch result;
    for (const auto count : samples) {
      auto ids = pool_.allocate(kernels::dtype::int32, {count, length_});
      auto targets = pool_.allocate(kernels::dtype::int32, {count, length_});
      std::int64_t valid = 0;
      for (auto& id : ids.span<std::int32_t>())
        id = token(random);
      for (auto& target : targets.span<std::int32_t>()) {
        target = ignore(random) ? -1 : token(random);
        valid += target >= 0 ? 1 : 0;
      }
      result.push_back({{ids}, {targets}, count, valid});
    }
    return result;
  }

private:
  std::int64_t vocabulary_;
  std::int64_t length_;
  double ignored_;
  kernels::buffer_pool pool_{kernels::make_cpu_device()};
};

} // namespace sluice::tests
