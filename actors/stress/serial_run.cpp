#include "actors/stress/serial_run.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/copy.hpp"
#include "kernels/nn/master.hpp"
#include "kernels/nn/sequential.hpp"
#include "kernels/ops/add.hpp"
#include "kernels/ops/cast.hpp"
#include "kernels/ops/sum_of_squares.hpp"

namespace sluice::stress {

using kernels::nn::micro_batch;
using kernels::nn::optimizer;
using kernels::nn::purpose;

namespace {

std::vector<std::byte> copy_of(const kernels::tensor& of) {
  const auto bytes = of.bytes_span();
  return {bytes.begin(), bytes.end()};
}

std::int64_t valid_targets(const actors::batch& data) {
  std::int64_t valid = 0;
  for (const auto& part : data)
    valid += part.valid_targets;
  return valid;
}

double mean(const std::vector<double>& losses, std::int64_t valid) {
  double sum = 0;
  for (const auto loss : losses)
    sum += loss;
  return valid > 0 ? sum / static_cast<double>(valid) : 0.0;
}

class gradient_keeper final : public optimizer {
public:
  explicit gradient_keeper(std::shared_ptr<const optimizer> inner) : inner_(std::move(inner)) {
    const auto inner_names = inner_->state_names();
    names_.assign(inner_names.begin(), inner_names.end());
    names_.push_back("gradient");
  }

  std::span<const std::string_view> state_names() const noexcept override { return names_; }

  void step(kernels::stream& on, kernels::nn::parameter& what, std::span<kernels::tensor> state,
            double learning_rate, std::uint64_t step_number, double gradient_scale) const override {
    kernels::copy(what.gradient, state.back());
    inner_->step(on, what, state.first(state.size() - 1), learning_rate, step_number,
                 gradient_scale);
  }

  void step_all(kernels::stream& on, std::span<const kernels::nn::stateful_parameter> all,
                double learning_rate, std::uint64_t step_number,
                double gradient_scale) const override {
    std::vector<kernels::nn::stateful_parameter> inner;
    for (const auto& [what, state] : all) {
      kernels::copy(what->gradient, state.back());
      inner.push_back({what, state.first(state.size() - 1)});
    }
    inner_->step_all(on, inner, learning_rate, step_number, gradient_scale);
  }

private:
  std::shared_ptr<const optimizer> inner_;
  std::vector<std::string_view> names_;
};

} // namespace

std::shared_ptr<const optimizer> keeping_gradients(std::shared_ptr<const optimizer> inner) {
  return std::make_shared<gradient_keeper>(std::move(inner));
}

byte_map bytes_of(const actors::model_state& state) {
  byte_map all;
  for (const auto& each : state.parameters) {
    all[each.name] = copy_of(each.tensors.front());
    for (std::size_t i = 1; i < each.tensors.size(); ++i)
      all[each.name + "/" + state.optimizer_slots.at(i - 1)] = copy_of(each.tensors[i]);
  }
  return all;
}

serial_run::serial_run(options of) : options_(std::move(of)), stream_(kernels::make_cpu_device()) {
  layers_ = options_.layers.size();
  std::vector<std::size_t> counts;
  for (const auto& each : options_.layers)
    counts.push_back(each->parameters().size());
  model_ = std::make_unique<kernels::nn::sequential>("model", std::move(options_.layers));
  model_->initialise(stream_, options_.seed);
  auto all = model_->parameters();
  std::size_t next = 0;
  for (std::size_t layer = 0; layer < layers_; ++layer)
    for (std::size_t i = 0; i < counts[layer]; ++i) {
      auto& each = all[next++];
      auto& held = parameters_[each.name];
      held.accumulators.push_back({&each, layer});
      each.value = held.lead().value;
      if (held.accumulators.size() > 1)
        continue;
      held.master = kernels::nn::make_master(stream_, each);
      held.state = options_.optimizer->make_state(stream_, held.updated());
    }
}

void serial_run::zero_gradients() {
  for (auto& each : model_->parameters())
    std::ranges::fill(each.gradient.bytes_span(), std::byte{0});
}

kernels::tensor_list serial_run::forward(const actors::batch_part& part, const micro_batch& which,
                                         kernels::nn::activation& save) {
  kernels::tensor_list inputs = part.inputs;
  if (which.purpose != purpose::predict)
    inputs.insert(inputs.end(), part.targets.begin(), part.targets.end());
  return model_->forward(stream_, which, std::move(inputs), save);
}

double serial_run::run(const actors::batch_part& part, const micro_batch& which) {
  auto saved = model_->make_activation();
  const auto loss = forward(part, which, saved).at(0).span<double>()[0];
  if (which.purpose == purpose::train) {
    model_->backward_input(stream_, which, {}, saved);
    model_->backward_weight(stream_, which, saved);
  }
  return loss;
}

micro_batch serial_run::context(const actors::batch& data, std::size_t micro_batch,
                                purpose why) const {
  const auto valid = valid_targets(data);
  kernels::nn::micro_batch which{.purpose = why,
                                 .seed = options_.seed,
                                 .step = step_,
                                 .loss_scale = valid > 0 ? 1.0 / static_cast<double>(valid) : 0.0};
  for (std::size_t m = 0; m < micro_batch; ++m)
    which.first_sample += data[m].samples;
  return which;
}

serial_run::order serial_run::order_of(const actors::batch& data, std::int32_t route,
                                       std::size_t layer) const {
  if (options_.order)
    return options_.order(route, layer);
  order ascending;
  for (std::size_t m = 0; m < data.size(); ++m)
    if (options_.route_of.empty() || options_.route_of[m] == route)
      ascending.push_back(static_cast<std::int32_t>(m));
  return ascending;
}

/// Sums the gradients of a route's micro-batches, once in each order that some layer has.
void serial_run::run_route(const actors::batch& data, std::int32_t route,
                           std::vector<double>& losses) {
  std::vector<order> by_layer;
  for (std::size_t layer = 0; layer < layers_; ++layer)
    by_layer.push_back(order_of(data, route, layer));
  for (const auto& each : std::set<order>(by_layer.begin(), by_layer.end())) {
    zero_gradients();
    for (const auto m : each) {
      const auto at = static_cast<std::size_t>(m);
      losses[at] = run(data[at], context(data, at, purpose::train));
    }
    for (auto& [name, held] : parameters_)
      for (std::size_t i = 0; i < held.accumulators.size(); ++i) {
        const auto& from = held.accumulators[i];
        if (by_layer[from.layer] != each)
          continue;
        const auto& gradient = std::as_const(from.of->gradient);
        auto& copy = held.parts[static_cast<std::size_t>(route) * held.accumulators.size() + i];
        copy = stream_.allocate(gradient.type(), gradient.shape());
        std::ranges::copy(gradient.bytes_span(), copy.bytes_span().begin());
      }
  }
}

serial_run::result serial_run::step(const actors::batch& data) {
  const auto& route_of = options_.route_of;
  const auto routes = route_of.empty() ? 1 : *std::ranges::max_element(route_of) + 1;
  std::vector<double> losses(data.size());
  for (auto& [name, held] : parameters_)
    held.parts.assign(static_cast<std::size_t>(routes) * held.accumulators.size(), {});
  for (std::int32_t route = 0; route < routes; ++route)
    run_route(data, route, losses);

  result done{.loss = mean(losses, valid_targets(data))};
  double squares = 0;
  for (auto& [name, held] : parameters_) {
    for (std::size_t i = 1; i < held.parts.size(); ++i)
      kernels::ops::add_into(stream_, held.parts.front(), held.parts[i]);
    std::ranges::copy(std::as_const(held.parts.front()).bytes_span(),
                      held.lead().gradient.bytes_span().begin());
    squares += kernels::ops::sum_of_squares(stream_, held.lead().gradient);
  }
  done.gradient_norm = std::sqrt(squares);
  double scale = 1;
  if (options_.clip > 0 && done.gradient_norm > options_.clip)
    scale = options_.clip / done.gradient_norm;
  for (auto& [name, held] : parameters_) {
    options_.optimizer->step(stream_, held.updated(), held.state, options_.learning_rate, step_ + 1,
                             scale);
    if (!held.master)
      continue;
    const kernels::ops::rounding copy{held.master->value, held.lead().value};
    kernels::ops::round_all(stream_, std::span(&copy, 1));
  }
  ++step_;
  return done;
}

double serial_run::evaluate(const actors::batch& data) {
  std::vector<double> losses;
  for (std::size_t m = 0; m < data.size(); ++m)
    losses.push_back(run(data[m], context(data, m, purpose::evaluate)));
  return mean(losses, valid_targets(data));
}

std::vector<kernels::tensor_list> serial_run::predict(const actors::batch& data) {
  std::vector<kernels::tensor_list> outputs;
  auto unused = model_->make_activation();
  for (std::size_t m = 0; m < data.size(); ++m)
    outputs.push_back(forward(data[m], context(data, m, purpose::predict), unused));
  return outputs;
}

byte_map serial_run::bytes() {
  byte_map all;
  const auto slots = options_.optimizer->state_names();
  for (auto& [name, held] : parameters_) {
    all[name] = copy_of(held.updated().value);
    for (std::size_t i = 0; i < slots.size(); ++i)
      all[name + "/" + std::string(slots[i])] = copy_of(held.state[i]);
  }
  return all;
}

} // namespace sluice::stress
