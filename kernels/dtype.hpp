#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::kernels {

/// The element type of a tensor. float64 exists for gradient checks; int32 for token ids. bfloat16
/// operands are widened, computed with in float32 and rounded once. These floating-point types are
/// computed with (on GPUs not float64); the others pass between modules, which may do as they
/// like.
enum class dtype : std::uint8_t { float32, float64, int32, int64, boolean, bfloat16 };
inline constexpr std::size_t dtypes = 6;

/// The upper half of a float32.
struct bfloat16 {
  std::uint16_t bits = 0;

  bool operator==(const bfloat16&) const noexcept = default;
};

/// Whether tensors of that type have gradients.
bool is_floating(dtype type) noexcept;

/// The size of one element.
std::size_t size_bytes(dtype type) noexcept;

/// The name as safetensors writes it: "F32", "F64", "I32", "I64", "BOOL", "BF16".
std::string_view name(dtype type) noexcept;

/// What sums and statistics over elements of `type` are kept in.
constexpr dtype accumulation_type(dtype type) noexcept {
  return type == dtype::bfloat16 ? dtype::float32 : type;
}

/// The reverse of name(). Errors: std::invalid_argument for a name that is none of ours.
dtype dtype_from_name(std::string_view name);

/// The dtype of a C++ type: dtype_of<float> == dtype::float32.
template <class T>
inline constexpr bool is_element = false;
template <class T>
inline constexpr dtype dtype_of = [] { static_assert(is_element<T>, "not an element type"); }();

template <>
inline constexpr bool is_element<float> = true;
template <>
inline constexpr bool is_element<double> = true;
template <>
inline constexpr bool is_element<std::int32_t> = true;
template <>
inline constexpr bool is_element<std::int64_t> = true;
template <>
inline constexpr bool is_element<bool> = true;
template <>
inline constexpr bool is_element<bfloat16> = true;

template <>
inline constexpr dtype dtype_of<float> = dtype::float32;
template <>
inline constexpr dtype dtype_of<double> = dtype::float64;
template <>
inline constexpr dtype dtype_of<std::int32_t> = dtype::int32;
template <>
inline constexpr dtype dtype_of<std::int64_t> = dtype::int64;
template <>
inline constexpr dtype dtype_of<bool> = dtype::boolean;
template <>
inline constexpr dtype dtype_of<bfloat16> = dtype::bfloat16;

} // namespace sluice::kernels
