#include "tests/support/serial_run.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/nn/sequential.hpp"
#include "kernels/ops/add.hpp"
#include "kernels/ops/sum_of_squares.hpp"

namespace sluice::tests {

using kernels::nn::optimizer;

namespace {

std::vector<std::byte> copy_of(const kernels::tensor& of) {
  const auto bytes = of.bytes_span();
  return {bytes.begin(), bytes.end()};
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
    std::ranges::copy(std::as_const(what.gradient).bytes_span(), state.back().bytes_span().begin());
    inner_->step(on, what, state.first(state.size() - 1), learning_rate, step_number,
                 gradient_scale);
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
  model_ = std::make_unique<kernels::nn::sequential>("model", std::move(options_.layers));
  model_->initialise(stream_, options_.seed);
  for (auto& each : model_->parameters()) {
    auto& held = parameters_[each.name];
    if (held.lead == nullptr) {
      held.lead = &each;
      held.state = options_.optimizer->make_state(stream_, each);
    } else {
      held.twin = &each;
      each.value = held.lead->value;
    }
  }
}

void serial_run::zero_gradients() {
  for (auto& each : model_->parameters())
    std::ranges::fill(each.gradient.bytes_span(), std::byte{0});
}

double serial_run::run(const actors::batch_part& part, const kernels::nn::micro_batch& which) {
  auto saved = model_->make_activation();
  kernels::tensor_list inputs = part.inputs;
  inputs.insert(inputs.end(), part.targets.begin(), part.targets.end());
  const auto loss =
    model_->forward(stream_, which, std::move(inputs), saved).at(0).span<double>()[0];
  model_->backward_input(stream_, which, {}, saved);
  model_->backward_weight(stream_, which, saved);
  return loss;
}

serial_run::result serial_run::step(const actors::batch& data) {
  std::int64_t valid = 0;
  for (const auto& part : data)
    valid += part.valid_targets;
  const auto& route_of = options_.route_of;
  const auto routes = route_of.empty() ? 1 : *std::ranges::max_element(route_of) + 1;
  std::vector<double> losses(data.size());
  for (auto& [name, held] : parameters_)
    held.parts.clear();
  for (std::int32_t route = 0; route < routes; ++route) {
    zero_gradients();
    kernels::nn::micro_batch which{.seed = options_.seed,
                                   .step = step_,
                                   .loss_scale =
                                     valid > 0 ? 1.0 / static_cast<double>(valid) : 0.0};
    for (std::size_t m = 0; m < data.size(); ++m) {
      if (route_of.empty() || route_of[m] == route)
        losses[m] = run(data[m], which);
      which.first_sample += data[m].samples;
    }
    for (auto& [name, held] : parameters_)
      for (auto* of : {held.lead, held.twin})
        if (of != nullptr) {
          auto& copy =
            held.parts.emplace_back(stream_.allocate(of->gradient.type(), of->gradient.shape()));
          std::ranges::copy(std::as_const(of->gradient).bytes_span(), copy.bytes_span().begin());
        }
  }

  double sum = 0;
  for (const auto loss : losses)
    sum += loss;
  result done{.loss = valid > 0 ? sum / static_cast<double>(valid) : 0.0};
  double squares = 0;
  for (auto& [name, held] : parameters_) {
    for (std::size_t i = 1; i < held.parts.size(); ++i)
      kernels::ops::add_into(stream_, held.parts.front(), held.parts[i]);
    std::ranges::copy(std::as_const(held.parts.front()).bytes_span(),
                      held.lead->gradient.bytes_span().begin());
    squares += kernels::ops::sum_of_squares(stream_, held.lead->gradient);
  }
  done.gradient_norm = std::sqrt(squares);
  double scale = 1;
  if (options_.clip > 0 && done.gradient_norm > options_.clip)
    scale = options_.clip / done.gradient_norm;
  for (auto& [name, held] : parameters_)
    options_.optimizer->step(stream_, *held.lead, held.state, options_.learning_rate, step_ + 1,
                             scale);
  ++step_;
  return done;
}

byte_map serial_run::bytes() const {
  byte_map all;
  const auto slots = options_.optimizer->state_names();
  for (const auto& [name, held] : parameters_) {
    all[name] = copy_of(held.lead->value);
    for (std::size_t i = 0; i < slots.size(); ++i)
      all[name + "/" + std::string(slots[i])] = copy_of(held.state[i]);
  }
  return all;
}

} // namespace sluice::tests
