#pragma once

#include <memory>
#include <stdexcept>

#include <ATen/ATen.h>

#include "kernels/tensor.hpp"

/// Sluice's tensors as torch's, for the adapter itself.

namespace sluice::kernels {

inline at::ScalarType torch_type(dtype type) {
  switch (type) {
  case dtype::float32:
    return at::kFloat;
  case dtype::float64:
    return at::kDouble;
  case dtype::int32:
    return at::kInt;
  case dtype::int64:
    return at::kLong;
  case dtype::boolean:
    return at::kBool;
  case dtype::bfloat16:
    return at::kBFloat16;
  }
  throw std::logic_error("a type that torch does not have");
}

/// A torch tensor over the same memory, the processor's. It keeps the handle as long as it lives.
inline at::Tensor view(const tensor& of) {
  auto held = std::make_unique<tensor>(of);
  auto* memory = held->bytes_span().data();
  const auto extents = of.shape().extents();
  return at::from_blob(
    memory, at::IntArrayRef(extents.data(), extents.size()),
    [keep = std::shared_ptr<tensor>(std::move(held))](void*) {}, torch_type(of.type()));
}

} // namespace sluice::kernels
