#include "kernels/ops/require.hpp"

#include <fmt/format.h>

namespace sluice::kernels::ops {

void require(const tensor& operand, dtype type, const shape& extents, std::string_view operation,
             std::string_view operand_name) {
  if (!operand)
    throw std::invalid_argument(fmt::format("{}: {} is absent", operation, operand_name));
  if (operand.type() != type || operand.shape() != extents)
    throw std::invalid_argument(fmt::format("{}: {} is {} of {}, expected {} of {}", operation,
                                            operand_name, to_string(operand.shape()),
                                            name(operand.type()), to_string(extents), name(type)));
}

void refuse_type(std::string_view operation, dtype type) {
  throw std::invalid_argument(
    fmt::format("{}: elements of {}, expected F32 or F64", operation, name(type)));
}

} // namespace sluice::kernels::ops
