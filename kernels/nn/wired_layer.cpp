#include "kernels/nn/wired_layer.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/nn/layer.hpp"
#include "kernels/ops/add.hpp"

namespace sluice::kernels::nn {

namespace {

/// to += what, where either may be absent. Overwrites `to` only if nobody else holds it.
void add_gradient(stream& on, tensor& to, tensor what) {
  if (!what)
    return;
  if (!to)
    to = std::move(what);
  else if (to.unique())
    ops::add_into(on, to, what);
  else
    to = ops::add(on, to, what);
}

} // namespace

wired_layer::wired_layer(module_ptr inner, wiring how)
  : inner_(std::move(inner)),
    how_(std::move(how)) {}

/// A layer that gives nothing but losses has nothing to do for a prediction, unless it is the one
/// that makes it.
bool wired_layer::runs(const micro_batch& which) const {
  return which.purpose != purpose::predict || how_.model_end
      || how_.own_losses < how_.ports.gives.size();
}

/// The inputs of the layer; those that nobody needs after it are taken out of the list.
tensor_list wired_layer::pick(tensor_list& inputs, std::size_t losses) const {
  tensor_list picked;
  for (std::size_t i = 0; i < how_.takes.size(); ++i) {
    const auto& from = how_.takes[i];
    const auto at = losses + from.at + (from.target ? how_.values_in : 0);
    auto& given = picked.emplace_back();
    if (from.at == wiring::none || at >= inputs.size())
      continue;
    if (from.last_use)
      given = std::move(inputs[at]);
    else
      given = inputs[at];
  }
  return picked;
}

void wired_layer::check_outputs(const micro_batch& which, const tensor_list& outputs) const {
  const bool predicts = which.purpose == purpose::predict;
  const auto losses = predicts ? how_.own_losses : 0;
  if (outputs.size() + losses < how_.ports.gives.size())
    throw std::invalid_argument(fmt::format("{}: gave {} tensors, declared {}", name(),
                                            outputs.size(), how_.ports.gives.size() - losses));
  for (auto i = losses; i < how_.ports.gives.size(); ++i)
    check_port(name(), "output", how_.ports.gives[i], outputs[i - losses]);
}

tensor_list wired_layer::forward(stream& on, const micro_batch& which, tensor_list inputs,
                                 activation& save) {
  save.parts.resize(1); // made so by make_activation(), as a rule
  const bool predicts = which.purpose == purpose::predict;
  const auto losses = predicts ? 0 : how_.losses_before;
  if (inputs.size() < losses + how_.values_in
      || inputs.size() > losses + how_.values_in + how_.targets)
    throw std::invalid_argument(
      fmt::format("{}: {} tensors came in; {} values and at most {} targets were expected", name(),
                  inputs.size() - losses, how_.values_in, how_.targets));
  tensor_list outputs;
  if (runs(which)) {
    auto taken = pick(inputs, losses);
    if (how_.declared)
      for (std::size_t i = 0; i < taken.size(); ++i)
        if (!predicts || !how_.takes[i].target)
          check_port(name(), "input", how_.ports.takes[i], taken[i]);
    outputs = inner_->forward(on, which, std::move(taken), save.parts.front());
    if (how_.declared && !(predicts && how_.model_end))
      check_outputs(which, outputs);
  }
  if (predicts && how_.model_end)
    return outputs;
  const auto own = predicts ? 0 : how_.own_losses;
  tensor_list result;
  for (std::size_t i = 0; i < losses; ++i)
    result.push_back(std::move(inputs[i]));
  for (std::size_t i = 0; i < own; ++i)
    result.push_back(std::move(outputs[i]));
  for (const auto& each : how_.values_out)
    result.push_back(each.value != wiring::none
                       ? std::move(inputs[losses + each.value])
                       : std::move(outputs[each.output - how_.own_losses + own]));
  if (!how_.model_end)
    for (auto i = losses + how_.values_in; i < inputs.size(); ++i)
      result.push_back(std::move(inputs[i]));
  return result;
}

tensor_list wired_layer::backward_input(stream& on, const micro_batch& which,
                                        tensor_list output_gradients, activation& saved) {
  const auto losses = how_.losses_before + how_.own_losses;
  tensor_list of_outputs(how_.ports.gives.size());
  tensor_list of_values(how_.losses_before + how_.values_in);
  for (std::size_t i = 0; i < how_.values_out.size(); ++i) {
    if (losses + i >= output_gradients.size())
      break;
    const auto& each = how_.values_out[i];
    auto& to = each.value != wiring::none ? of_values[how_.losses_before + each.value]
                                          : of_outputs[each.output];
    to = std::move(output_gradients[losses + i]);
  }
  if (how_.own_losses == 0
      && std::ranges::none_of(of_outputs, [](const auto& each) { return bool{each}; })) {
    saved.parts.clear(); // No loss comes after it: it has no backward, and W is told so.
    return of_values;
  }
  if (how_.own_losses == how_.ports.gives.size())
    of_outputs.clear(); // none at all after a loss
  auto of_inputs = inner_->backward_input(on, which, std::move(of_outputs), saved.parts.at(0));
  for (std::size_t i = 0; i < how_.takes.size() && i < of_inputs.size(); ++i)
    if (how_.takes[i].at != wiring::none && !how_.takes[i].target)
      add_gradient(on, of_values[how_.losses_before + how_.takes[i].at], std::move(of_inputs[i]));
  return of_values;
}

void wired_layer::backward_weight(stream& on, const micro_batch& which, activation& saved) {
  if (!saved.parts.empty())
    inner_->backward_weight(on, which, saved.parts.front());
}

activation wired_layer::make_activation() const {
  activation made;
  made.parts.push_back(inner_->make_activation());
  return made;
}

} // namespace sluice::kernels::nn
