#include "kernels/nn/tie.hpp"

#include <algorithm>
#include <stdexcept>

#include "kernels/copy.hpp"
#include "kernels/ops/add.hpp"

namespace sluice::kernels::nn {

namespace {

// The twin of `which` that comes right before it in the order of accumulators; null for the first.
parameter* before(const parameter& which, std::span<parameter* const> all) {
  parameter* found = nullptr;
  for (auto* other : all)
    if (other->name == which.name && other->accumulator < which.accumulator
        && (found == nullptr || other->accumulator > found->accumulator))
      found = other;
  return found;
}

parameter* first_twin(parameter& which, std::span<parameter* const> all) {
  auto* first = &which;
  while (auto* earlier = before(*first, all))
    first = earlier;
  return first;
}

} // namespace

void tie_parameters(std::span<parameter* const> all) {
  for (auto* each : all) {
    auto* first = first_twin(*each, all);
    if (first == each)
      continue;
    if (first->value.shape() != each->value.shape() || first->value.type() != each->value.type())
      throw std::invalid_argument("the tied parameter " + each->name
                                  + " has two shapes: " + to_string(first->value.shape()) + " and "
                                  + to_string(each->value.shape()));
    each->value = first->value;
  }
}

std::vector<parameter*> all_parameters(std::span<const module_ptr> modules) {
  std::vector<parameter*> all;
  for (const auto& module : modules)
    for (auto& owned : module->parameters())
      all.push_back(&owned);
  return all;
}

void add_tied_gradients(stream& on, std::span<parameter* const> all) {
  for (auto* each : all) {
    if (before(*each, all) != nullptr)
      continue;
    // Few parameters have twins and few twins there are: look for the next accumulator each time.
    for (int last = each->accumulator;;) {
      parameter* next = nullptr;
      for (auto* other : all)
        if (other->name == each->name && other->accumulator > last
            && (next == nullptr || other->accumulator < next->accumulator))
          next = other;
      if (next == nullptr)
        break;
      ops::add_into(on, each->gradient, next->gradient);
      last = next->accumulator;
    }
  }
}

void zero_gradients(std::span<parameter* const> all) {
  for (auto* each : all)
    set_zero(each->gradient);
}

} // namespace sluice::kernels::nn
