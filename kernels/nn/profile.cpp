#include "kernels/nn/profile.hpp"

#include <algorithm>
#include <stdexcept>

#include "kernels/nn/tie.hpp"

namespace sluice::kernels::nn {

namespace {

using clock = std::chrono::steady_clock;

struct layer_times {
  std::vector<std::chrono::nanoseconds> forward, backward_input, backward_weight;
};

// The first tensor is what the layer made; the others pass through and cross no cut.
std::size_t first_bytes(const tensor_list& list) {
  return list.empty() || !list.front() ? 0 : list.front().bytes();
}

void collect(const activation& from, std::vector<tensor>& into) {
  for (const auto& saved : from.saved) {
    const auto known = [&](const tensor& other) { return other.shares_buffer_with(saved); };
    if (saved && std::none_of(into.begin(), into.end(), known))
      into.push_back(saved);
  }
  for (const auto& part : from.parts)
    collect(part, into);
}

class profiler {
public:
  profiler(stream& on, std::span<const module_ptr> layers)
    : on_(on),
      layers_(layers),
      costs_(layers.size()),
      times_(layers.size()) {
    for (const auto& layer : layers)
      activations_.push_back(layer->make_activation());
  }

  void round(tensor_list flowing) {
    micro_batch which;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      times_[i].forward.push_back(timed(
        [&] { flowing = layers_[i]->forward(on_, which, std::move(flowing), activations_[i]); }));
      costs_[i].activation_bytes = saved_bytes(activations_[i]);
      costs_[i].output_bytes = first_bytes(flowing);
    }
    // After a loss there is no gradient; otherwise the output itself serves as one.
    if (flowing.front().type() == dtype::float64 && flowing.front().shape().rank() == 0)
      flowing.clear();
    for (std::size_t i = layers_.size(); i-- > 0;) {
      times_[i].backward_input.push_back(timed([&] {
        flowing = layers_[i]->backward_input(on_, which, std::move(flowing), activations_[i]);
      }));
      times_[i].backward_weight.push_back(
        timed([&] { layers_[i]->backward_weight(on_, which, activations_[i]); }));
    }
  }

  void forget_times() { times_.assign(layers_.size(), {}); }

  std::vector<layer_cost> result() {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      costs_[i].name = layers_[i]->name();
      costs_[i].forward = std::ranges::min(times_[i].forward);
      costs_[i].backward_input = std::ranges::min(times_[i].backward_input);
      costs_[i].backward_weight = std::ranges::min(times_[i].backward_weight);
      for (const auto& owned : layers_[i]->parameters())
        costs_[i].parameter_bytes += owned.value.bytes();
    }
    return std::move(costs_);
  }

private:
  /// From an idle device to an idle device.
  template <class Work>
  std::chrono::nanoseconds timed(Work work) {
    on_.where().wait();
    const auto start = clock::now();
    work();
    on_.where().wait();
    return clock::now() - start;
  }

  stream& on_;
  std::span<const module_ptr> layers_;
  std::vector<layer_cost> costs_;
  std::vector<layer_times> times_;
  std::vector<activation> activations_;
};

} // namespace

std::size_t saved_bytes(const activation& saved) {
  std::vector<tensor> all;
  collect(saved, all);
  std::size_t bytes = 0;
  for (const auto& each : all)
    bytes += each.bytes();
  return bytes;
}

std::vector<layer_cost> profile_layers(stream& on, std::span<const module_ptr> layers,
                                       const tensor_list& inputs, int repeats) {
  if (layers.empty() || repeats < 1)
    throw std::invalid_argument("profile: no layers, or no repeats");
  profiler measured(on, layers);
  measured.round(inputs);
  measured.forget_times();
  const auto enough = clock::now() + std::chrono::milliseconds(500);
  for (int i = 0; i < repeats || (i < 4 * repeats && clock::now() < enough); ++i)
    measured.round(inputs);
  zero_gradients(all_parameters(layers));
  return measured.result();
}

} // namespace sluice::kernels::nn
