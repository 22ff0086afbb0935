#pragma once

#include <cstdint>
#include <string>

namespace sluice::net {

/// What a transfer carries.
enum class payload : std::uint8_t {
  activation, ///< a chunk's outputs, to the chunk after it
  gradient,   ///< the gradients of a chunk's inputs, to the chunk before it
  input,      ///< a micro-batch's inputs, from the trainer to a first chunk
  target,     ///< a micro-batch's targets, from the trainer to a chunk with a loss
  output,     ///< a prediction, from a last chunk to the trainer
  twin,       ///< one accumulator of a shared parameter's gradient, to another holder of it
  state,      ///< a parameter and its optimizer state, between a stage and the trainer
};

/// Names one transfer. Two transfers of a run never have the same name, so a payload that
/// arrives under a wrong one is noticed.
struct transfer {
  std::uint64_t epoch = 0;      ///< counts attempts at steps; what an aborted one left is dropped
  net::payload payload = payload::activation;
  std::int32_t from = 0;        ///< ranks; the trainer is the rank after the last stage
  std::int32_t to = 0;
  std::int32_t chunk = 0;       ///< that takes it (activation, gradient, input, target); of
                                ///< output, the one that made it; else an index
  std::int32_t micro_batch = 0; ///< of twin, the accumulator's ordinal

  bool operator==(const transfer&) const = default;
};

/// "the gradient for chunk 1, micro-batch 3, from rank 2 to rank 1"
std::string to_string(const transfer& what);

} // namespace sluice::net
