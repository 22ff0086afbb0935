#include "kernels/dtype.hpp"

#include <array>
#include <stdexcept>
#include <string>

namespace sluice::kernels {

namespace {

struct description {
  std::string_view name;
  std::size_t bytes;
};

// Indexed by dtype.
constexpr std::array<description, 4> descriptions{
  {{"F32", 4}, {"F64", 8}, {"I32", 4}, {"BF16", 2}}};

} // namespace

std::size_t size_bytes(dtype type) noexcept {
  return descriptions[static_cast<std::size_t>(type)].bytes;
}

std::string_view name(dtype type) noexcept {
  return descriptions[static_cast<std::size_t>(type)].name;
}

dtype dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < descriptions.size(); ++i)
    if (descriptions[i].name == name)
      return static_cast<dtype>(i);
  throw std::invalid_argument("unknown element type '" + std::string(name)
                              + "': expected F32, F64, I32 or BF16");
}

} // namespace sluice::kernels
