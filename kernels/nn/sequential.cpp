#include "kernels/nn/sequential.hpp"

#include <stdexcept>

namespace sluice::kernels::nn {

sequential::sequential(std::string name, std::vector<module_ptr> modules)
  : name_(std::move(name)),
    modules_(std::move(modules)) {
  if (modules_.empty())
    throw std::invalid_argument(name_ + ": a sequence of no modules");
  for (auto& module : modules_)
    for (auto& owned : module->parameters())
      parameters_.push_back(&owned);
}

tensor_list sequential::forward(stream& on, const micro_batch& which, tensor_list inputs,
                                activation& save) {
  save.parts.resize(modules_.size()); // made so by make_activation(), as a rule
  for (std::size_t i = 0; i < modules_.size(); ++i)
    inputs = modules_[i]->forward(on, which, std::move(inputs), save.parts[i]);
  return inputs;
}

tensor_list sequential::backward_input(stream& on, const micro_batch& which,
                                       tensor_list output_gradients, activation& saved) {
  for (std::size_t i = modules_.size(); i-- > 0;)
    output_gradients =
      modules_[i]->backward_input(on, which, std::move(output_gradients), saved.parts.at(i));
  return output_gradients;
}

void sequential::backward_weight(stream& on, const micro_batch& which, activation& saved) {
  for (std::size_t i = modules_.size(); i-- > 0;)
    modules_[i]->backward_weight(on, which, saved.parts.at(i));
}

void sequential::initialise(stream& on, std::uint64_t seed) {
  for (auto& module : modules_)
    module->initialise(on, seed);
}

activation sequential::make_activation() const {
  activation made;
  made.parts.reserve(modules_.size());
  for (const auto& module : modules_)
    made.parts.push_back(module->make_activation());
  return made;
}

} // namespace sluice::kernels::nn
