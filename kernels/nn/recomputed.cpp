#include "kernels/nn/recomputed.hpp"

#include "kernels/nn/layer.hpp"

namespace sluice::kernels::nn {

tensor_list recomputed::forward(stream& on, const micro_batch& which, tensor_list inputs,
                                activation& save) {
  save.parts.resize(1); // made so by make_activation(), as a rule
  if (!saves(which))
    return inner_->forward(on, which, std::move(inputs), save.parts.front());
  // The saved handles also keep the inner modules from overwriting their inputs.
  for (const auto& input : inputs)
    keep(save, input);
  auto once = which;
  once.saves = false;
  return inner_->forward(on, once, std::move(inputs), save.parts.front());
}

tensor_list recomputed::backward_input(stream& on, const micro_batch& which,
                                       tensor_list output_gradients, activation& saved) {
  auto inputs = saved.saved;
  inner_->forward(on, which, std::move(inputs), saved.parts.at(0));
  saved.saved.clear();
  return inner_->backward_input(on, which, std::move(output_gradients), saved.parts.at(0));
}

void recomputed::backward_weight(stream& on, const micro_batch& which, activation& saved) {
  inner_->backward_weight(on, which, saved.parts.at(0));
}

activation recomputed::make_activation() const {
  activation made;
  made.parts.push_back(inner_->make_activation());
  return made;
}

} // namespace sluice::kernels::nn
