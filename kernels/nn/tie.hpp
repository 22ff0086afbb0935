#pragma once

#include <span>
#include <vector>

#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::nn {

/// Makes parameters of one name share one value, that of the lowest accumulator, while each keeps
/// its own gradient. Call it after initialise(), for all modules of one device together.
/// Errors: std::invalid_argument for equal names with different shapes or types.
void tie_parameters(std::span<parameter* const> all);

/// The pointers that tie_parameters() and add_tied_gradients() take, module by module.
std::vector<parameter*> all_parameters(std::span<const module_ptr> modules);

/// Adds the gradients of twins, in the order of their accumulators, into that of the lowest, so
/// that this one holds the whole gradient. The others are left as they are: they count no more.
void add_tied_gradients(stream& on, std::span<parameter* const> all);

/// Zeroes all gradients, for the next step.
void zero_gradients(std::span<parameter* const> all);

} // namespace sluice::kernels::nn
