#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/batch.hpp"
#include "kernels/nn/optimizer.hpp"
#include "kernels/nn/stage_module.hpp"

namespace sluice::stress {

/// A real model, as small as one can be that is cut into so many layers: what is shaken is the
/// runtime, and a wrong byte anywhere changes the gradients of all layers before it.
struct small_model {
  enum class kind : std::uint8_t { mlp, gpt }; ///< the GPT has a tied weight, and dropout

  kind of = kind::mlp;
  std::int32_t layers = 6; ///< to be cut between any two; 2 at least, an even number for a GPT

  bool operator==(const small_model&) const = default;

  std::vector<kernels::nn::module_ptr> make() const;

  /// Random inputs and targets, some of a GPT's ignored. Part i has samples[i] rows.
  actors::batch batch(std::uint64_t seed, std::span<const std::int64_t> samples) const;
};

/// AdamW that keeps the gradients beside its own state, so that they are compared too.
std::shared_ptr<const kernels::nn::optimizer> small_optimizer();

inline constexpr double small_clip = 0.5; ///< small enough to be active
inline constexpr double small_learning_rate = 1e-2;
inline constexpr std::uint64_t small_seed = 5; ///< of the initial weights and the dropout

} // namespace sluice::stress
