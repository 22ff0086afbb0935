#include "kernels/nn/layer.hpp"

#include <stdexcept>

#include "kernels/ops/random.hpp"

namespace sluice::kernels::nn {

layer::layer(std::string name, dtype type, std::vector<parameter_description> parameters)
  : name_(std::move(name)),
    type_(type),
    hash_(ops::hash_name(name_)),
    descriptions_(std::move(parameters)),
    parameters_(descriptions_.size()) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].name = descriptions_[i].name;
    parameters_[i].decays = descriptions_[i].decays;
    parameters_[i].accumulator = descriptions_[i].accumulator;
    pointers_.push_back(&parameters_[i]);
  }
}

void layer::initialise(stream& on, std::uint64_t seed) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& wanted = descriptions_[i];
    auto& made = parameters_[i];
    made.value = on.allocate(type_, wanted.shape);
    fill_initial(made.value, wanted.initial, seed, wanted.name);
    made.gradient = on.zeros(accumulation_type(type_), wanted.shape);
    made.value.set_use(buffer_use::parameter);
    made.gradient.set_use(buffer_use::parameter);
  }
}

ops::dropout_mask layer::mask(const micro_batch& which, double probability,
                              std::uint32_t operation) const noexcept {
  return {trains(which) ? probability : 0,
          {which.seed, which.step, hash_, operation},
          which.first_sample};
}

tensor_list unary_layer::forward(stream& on, const micro_batch& which, tensor_list inputs,
                                 activation& save) {
  if (inputs.empty() || !inputs.front())
    throw std::invalid_argument(name() + ": no input");
  try {
    inputs.front() = map(on, which, std::move(inputs.front()), save);
  } catch (const std::invalid_argument& problem) { // An operation knows the shapes, not the layer.
    throw std::invalid_argument(name() + ": " + problem.what());
  }
  return inputs;
}

tensor_list unary_layer::backward_input(stream& on, const micro_batch& which,
                                        tensor_list output_gradients, activation& saved) {
  if (output_gradients.empty() || !output_gradients.front())
    throw std::invalid_argument(name() + ": no gradient of the output");
  output_gradients.front() = pull_back(on, which, std::move(output_gradients.front()), saved);
  return output_gradients;
}

void keep(activation& save, tensor what) {
  what.set_use(buffer_use::activation);
  save.saved.push_back(std::move(what));
}

} // namespace sluice::kernels::nn
