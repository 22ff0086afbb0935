#pragma once

#include <optional>
#include <span>

#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::nn {

/// The float32 twin of a bfloat16 parameter; nothing for one that needs none. It is the parameter
/// that an optimizer updates, a checkpoint keeps and a digest is made of: bfloat16 has 8 bits, in
/// which an update of a thousandth of a weight would be lost. The layers compute with the rounded
/// copy. It has the parameter's gradient, and starts with its value.
std::optional<parameter> make_master(stream& on, const parameter& of);

/// The tensors of a parameter beside its value and its gradient: one for each slot of the
/// optimizer's state, and the master.
std::size_t tensors_beside(const parameter& of, std::size_t slots);

} // namespace sluice::kernels::nn
