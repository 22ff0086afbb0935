// Modules of LibTorch as layers.

#include <sluice/kernels/torch/torch_module.hpp>

std::vector<sluice::kernels::nn::module_ptr> make_layers() {
  torch::manual_seed(1);
  const torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::Tanh(),
                                  torch::nn::Linear(8, 4));
  return sluice::kernels::torch_layers(
    "net", net, {.loss = [](const at::Tensor& logits, const at::Tensor& labels) {
      return torch::cross_entropy_loss(logits, labels.to(at::kLong), {}, at::Reduction::Sum);
    }});
}
