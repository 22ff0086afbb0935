#pragma once

#include "kernels/stream.hpp"

namespace sluice::kernels::ops {

/// left + right: a residual connection.
/// Shapes: both the same. Errors: std::invalid_argument for others, or integers.
tensor add(stream& on, const tensor& left, const tensor& right);

/// to += what.
void add_into(stream& on, tensor& to, const tensor& what);

} // namespace sluice::kernels::ops
