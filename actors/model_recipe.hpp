#pragma once

#include <cstdint>
#include <string>

namespace sluice::actors {

/// A network as data.
struct model_recipe {
  std::string kind = "gpt";      ///< "gpt" or "mlp"
  std::int64_t vocabulary = 256; ///< of an mlp, its classes
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t length = 128; ///< of an mlp, its features
  double dropout = 0;
  bool tied = true;
  std::string precision = "float32"; ///< or "bfloat16", with float32 masters of the weights

  bool operator==(const model_recipe&) const = default;
};

/// An optimizer as data.
struct optimizer_recipe {
  std::string kind = "adamw"; ///< "adamw" or "sgd"
  double weight_decay = 0.1;
  double momentum = 0.9; ///< of sgd

  bool operator==(const optimizer_recipe&) const = default;
};

} // namespace sluice::actors
