#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/nn/make_module.hpp"

// Small modules with named tensors, as an embedder would write them. All floats are float32.

namespace sluice::tests {

using kernels::dtype;
using kernels::stream;
using kernels::tensor;
using kernels::tensor_list;
using kernels::nn::activation;
using kernels::nn::micro_batch;
using kernels::nn::module_ports;
using kernels::nn::parameter;
using kernels::nn::port;

/// output = weight * input, column by column. Shapes: [samples, ..., width], kept.
class gain {
public:
  gain(std::string weight, std::int64_t width, module_ports ports = {}, int accumulator = 0)
    : width_(width),
      ports_(std::move(ports)) {
    weight_.name = std::move(weight);
    weight_.accumulator = accumulator;
    if (ports_.takes.empty())
      ports_ = {{{"h", dtype::float32}}, {{"h", dtype::float32}}};
  }

  const module_ports& ports() const { return ports_; }
  std::vector<parameter*> parameters() { return {&weight_}; }

  void initialise(stream& on, std::uint64_t seed) {
    set_up(weight_, on, seed, {.shape = {width_}, .deviation = 0.3, .mean = 1});
  }

  tensor_list forward(stream& on, const micro_batch&, tensor_list inputs, activation& save) {
    auto y = times(on, inputs[0]);
    save.saved.push_back(inputs[0]);
    tensor_list outputs;
    outputs.push_back(y);
    if (ports_.gives.size() > 1) // a second one: the input itself
      outputs.push_back(std::move(inputs[0]));
    return outputs;
  }

  tensor_list backward_input(stream& on, const micro_batch&, tensor_list gradients,
                             activation& saved) {
    tensor_list results;
    results.push_back(times(on, gradients[0]));
    if (gradients.size() > 1 && gradients[1])
      for (std::int64_t i = 0; i < results[0].elements(); ++i)
        results[0].data<float>()[i] += std::as_const(gradients[1]).data<float>()[i];
    saved.saved.push_back(std::move(gradients[0]));
    return results;
  }

  void backward_weight(stream&, const micro_batch&, activation& saved) {
    const auto x = std::as_const(saved.saved[0]).span<float>();
    const auto dy = std::as_const(saved.saved[1]).span<float>();
    const auto sum = weight_.gradient.span<float>();
    for (std::size_t i = 0; i < x.size(); ++i)
      sum[i % sum.size()] += x[i] * dy[i];
    saved.saved.clear();
  }

private:
  tensor times(stream& on, const tensor& x) const {
    auto y = on.allocate(dtype::float32, x.shape());
    const auto weight = std::as_const(weight_.value).span<float>();
    for (std::int64_t i = 0; i < x.elements(); ++i)
      y.data<float>()[i] = x.data<float>()[i] * weight[static_cast<std::size_t>(i) % weight.size()];
    return y;
  }

  std::int64_t width_;
  module_ports ports_;
  parameter weight_;
};

/// The sum of its inputs, without weights: h = h + skip.
class join {
public:
  explicit join(module_ports ports) : ports_(std::move(ports)) {}

  const module_ports& ports() const { return ports_; }

  tensor_list forward(stream& on, const micro_batch&, tensor_list inputs, activation&) {
    auto sum = on.zeros(dtype::float32, inputs[0].shape());
    for (const auto& each : std::as_const(inputs))
      for (std::int64_t i = 0; each && i < sum.elements(); ++i)
        sum.data<float>()[i] += each.data<float>()[i];
    tensor_list outputs;
    outputs.push_back(std::move(sum));
    return outputs;
  }

  tensor_list backward(stream&, const micro_batch&, tensor_list gradients, activation&) {
    return tensor_list(ports_.takes.size(), gradients[0]);
  }

private:
  module_ports ports_;
};

/// Half the squared distance of two inputs, summed: a loss on whatever stage it is.
class distance {
public:
  distance(std::string from, std::string to)
    : ports_{{{std::move(from)}, {.name = std::move(to), .optional = true}},
             {{.name = "loss", .loss = true}}} {}

  const module_ports& ports() const { return ports_; }

  tensor_list forward(stream& on, const micro_batch& which, tensor_list inputs, activation& save) {
    tensor_list outputs;
    if (which.purpose == kernels::nn::purpose::predict) {
      outputs.push_back(inputs[0]);
      return outputs;
    }
    auto difference = on.allocate(dtype::float32, inputs[0].shape());
    double sum = 0;
    for (std::int64_t i = 0; i < difference.elements(); ++i) {
      const auto each =
        std::as_const(inputs[0]).data<float>()[i] - std::as_const(inputs[1]).data<float>()[i];
      difference.data<float>()[i] = each;
      sum += 0.5 * static_cast<double>(each) * static_cast<double>(each);
    }
    save.saved.push_back(std::move(difference));
    outputs.push_back(on.allocate(dtype::float64, {}));
    outputs[0].data<double>()[0] = sum;
    return outputs;
  }

  tensor_list backward(stream& on, const micro_batch& which, tensor_list, activation& saved) {
    const auto difference = std::as_const(saved.saved[0]).span<float>();
    tensor_list results;
    results.push_back(on.allocate(dtype::float32, saved.saved[0].shape()));
    for (std::size_t i = 0; i < difference.size(); ++i)
      results[0].data<float>()[i] = difference[i] * static_cast<float>(which.loss_scale);
    results.emplace_back();
    saved.saved.clear();
    return results;
  }

private:
  module_ports ports_;
};

} // namespace sluice::tests
