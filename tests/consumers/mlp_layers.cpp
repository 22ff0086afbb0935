// Layers that Sluice brings.

#include <sluice/kernels/nn/mlp.hpp>

std::vector<sluice::kernels::nn::module_ptr> make_layers() {
  return sluice::kernels::nn::make_mlp({.features = 4, .width = 8, .layers = 3});
}
