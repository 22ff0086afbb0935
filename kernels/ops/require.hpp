#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "kernels/tensor.hpp"

namespace sluice::kernels::ops {

/// Refuses an operand of another shape or type, naming operation and operand.
/// Errors: std::invalid_argument.
void require(const tensor& operand, dtype type, const shape& extents, std::string_view operation,
             std::string_view operand_name);

/// "gelu: elements of I32"; for the default branch below.
[[noreturn]] void refuse_type(std::string_view operation, dtype type);

/// Calls body(T{}) with the floating-point type T that `type` stands for, so that an operation
/// is written once: with_float(x.type(), "gelu", [&]<class T>(T) { ... }).
/// Errors: std::invalid_argument for int32 and bfloat16.
template <class Body>
decltype(auto) with_float(dtype type, std::string_view operation, Body&& body) {
  switch (type) {
  case dtype::float32:
    return body(float{});
  case dtype::float64:
    return body(double{});
  case dtype::int32:
  case dtype::bfloat16:
    break;
  }
  refuse_type(operation, type);
}

} // namespace sluice::kernels::ops
