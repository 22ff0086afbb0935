#pragma once

#include <span>
#include <string>

#include "kernels/tensor.hpp"

namespace sluice::kernels {

/// A tensor and what it is called.
struct named_tensor {
  std::string name;
  tensor value;
};

/// The SHA-256, in hexadecimal, of the tensors in byte order of their names: for each its name,
/// NUL, its type ("F32"), NUL, its extents in decimals joined by commas, NUL, its little-endian
/// bytes. Of several tensors of one name (a tied weight) the first counts.
/// Errors: std::runtime_error when OpenSSL fails.
std::string weights_sha256(std::span<const named_tensor> tensors);

} // namespace sluice::kernels
