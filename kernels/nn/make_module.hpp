#pragma once

#include <concepts>
#include <memory>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "kernels/nn/ports.hpp"
#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::nn {

/// What a class of yours needs to be a module: these two,
///
///     tensor_list forward(stream&, const micro_batch&, tensor_list inputs, activation& save);
///     tensor_list backward(stream&, const micro_batch&, tensor_list output_gradients,
///                          activation& saved);
///
/// or, in place of backward, its two halves, which lets schedules that split it fill their bubbles:
///
///     tensor_list backward_input(...as backward...);
///     void backward_weight(stream&, const micro_batch&, activation& saved);
///
/// and, where it has weights,
///
///     std::vector<parameter*> parameters();        // the same ones each time, in a fixed order
///     void initialise(stream&, std::uint64_t seed);  // see set_up() below
///
/// It may also have `const module_ports& ports() const`, `activation make_activation() const` and
/// `void skip_input_gradient(std::size_t input)`. What each is to do stands in stage_module.hpp.
template <class Module>
concept has_forward = requires(Module module, stream& on, const micro_batch& which,
                               tensor_list tensors, activation& save) {
  { module.forward(on, which, std::move(tensors), save) } -> std::same_as<tensor_list>;
};

template <class Module>
concept has_backward = requires(Module module, stream& on, const micro_batch& which,
                                tensor_list tensors, activation& saved) {
  { module.backward(on, which, std::move(tensors), saved) } -> std::same_as<tensor_list>;
};

template <class Module>
concept has_split_backward = requires(Module module, stream& on, const micro_batch& which,
                                      tensor_list tensors, activation& saved) {
  { module.backward_input(on, which, std::move(tensors), saved) } -> std::same_as<tensor_list>;
  { module.backward_weight(on, which, saved) } -> std::same_as<void>;
};

template <class Module>
concept has_parameters = requires(Module module) {
  { module.parameters() } -> std::ranges::input_range;
};

template <class Module>
concept has_initialise = requires(Module module, stream& on, std::uint64_t seed) {
  module.initialise(on, seed);
};

/// All that a module needs.
template <class Module>
concept module_like = has_forward<Module> &&(has_backward<Module> || has_split_backward<Module>)&&(
  !has_parameters<Module> || has_initialise<Module>);

namespace detail {

// Whether there is a member of that name at all, whatever it takes.
template <class Module>
concept names_forward = requires {
  &Module::forward;
};
template <class Module>
concept names_backward = requires {
  &Module::backward;
};
template <class Module>
concept names_halves = requires {
  &Module::backward_input;
}
|| requires {
  &Module::backward_weight;
};

/// One error, and one line of it, for the first thing that is wrong.
template <class Module>
constexpr bool explain() {
  if constexpr (!has_forward<Module>) {
    static_assert(!names_forward<Module>,
                  "this module's forward must be: tensor_list forward(stream&, const "
                  "micro_batch&, tensor_list inputs, activation& save)");
    static_assert(names_forward<Module>,
                  "this module has no forward: tensor_list forward(stream&, const micro_batch&, "
                  "tensor_list inputs, activation& save)");
  } else if constexpr (!has_backward<Module> && !has_split_backward<Module>) {
    static_assert(!names_backward<Module>,
                  "this module's backward must be: tensor_list backward(stream&, const "
                  "micro_batch&, tensor_list output_gradients, activation& saved)");
    static_assert(!names_halves<Module>,
                  "this module's split backward must be: tensor_list backward_input(stream&, "
                  "const micro_batch&, tensor_list output_gradients, activation& saved) and void "
                  "backward_weight(stream&, const micro_batch&, activation& saved)");
    static_assert(names_backward<Module> || names_halves<Module>,
                  "this module has no backward: tensor_list backward(stream&, const "
                  "micro_batch&, tensor_list output_gradients, activation& saved)");
  } else if constexpr (has_parameters<Module>) {
    static_assert(has_initialise<Module>,
                  "this module has parameters, but no initialise: void initialise(stream&, "
                  "std::uint64_t seed)");
  }
  return module_like<Module>;
}

/// A class of the user's behind the interface that stages know.
template <class Module>
class adapted final : public stage_module {
public:
  adapted(std::string name, Module module) : name_(std::move(name)), module_(std::move(module)) {
    if constexpr (has_parameters<Module>)
      for (parameter* each : module_.parameters())
        pointers_.push_back(each);
  }

  const std::string& name() const override { return name_; }

  /// What it saves for a backward that will not come, or not from this forward, is dropped here, so
  /// that it need not ask.
  tensor_list forward(stream& on, const micro_batch& which, tensor_list inputs,
                      activation& save) override {
    auto outputs = module_.forward(on, which, std::move(inputs), save);
    if (which.purpose != purpose::train || !which.saves)
      save = make_activation();
    return outputs;
  }

  tensor_list backward_input(stream& on, const micro_batch& which, tensor_list output_gradients,
                             activation& saved) override {
    if constexpr (has_split_backward<Module>)
      return module_.backward_input(on, which, std::move(output_gradients), saved);
    else
      return module_.backward(on, which, std::move(output_gradients), saved);
  }

  /// A backward that is whole has added to the weights' gradients already.
  void backward_weight(stream& on, const micro_batch& which, activation& saved) override {
    if constexpr (has_split_backward<Module>)
      module_.backward_weight(on, which, saved);
    else
      saved.saved.clear();
  }

  parameter_list parameters() override { return {pointers_, {}}; }

  void initialise(stream& on, std::uint64_t seed) override {
    if constexpr (has_initialise<Module>)
      module_.initialise(on, seed);
  }

  const module_ports* ports() const override {
    if constexpr (requires {
                    { module_.ports() } -> std::same_as<const module_ports&>;
                  })
      return &module_.ports();
    else
      return &unnamed_;
  }

  void skip_input_gradient(std::size_t input) override {
    if constexpr (requires { module_.skip_input_gradient(input); })
      module_.skip_input_gradient(input);
  }

  activation make_activation() const override {
    if constexpr (requires {
                    { module_.make_activation() } -> std::same_as<activation>;
                  })
      return module_.make_activation();
    else
      return {};
  }

private:
  std::string name_;
  Module module_;
  std::vector<parameter*> pointers_;
  module_ports unnamed_; ///< empty: one tensor in, one out, the others go past it
};

} // namespace detail

/// Makes a layer of a class of yours; from here on its type is forgotten.
/// Errors: at compile time, one line that says what the class lacks.
template <class Module>
module_ptr make_module(std::string name, Module module) {
  if constexpr (detail::explain<Module>())
    return std::make_unique<detail::adapted<Module>>(std::move(name), std::move(module));
  else
    return nullptr; // not reached: it did not compile
}

/// The layers of a model, in their order.
template <class... Modules>
std::vector<module_ptr> make_layers(Modules... modules) {
  std::vector<module_ptr> layers;
  (layers.push_back(std::move(modules)), ...);
  return layers;
}

/// How a parameter starts, for initialise(): its value depends on (seed, name) alone.
struct initial_parameter {
  kernels::shape shape;
  double deviation = 0; ///< of normally distributed values
  double mean = 0;      ///< added to each
  dtype type = dtype::float32;
};

/// Gives a parameter its first value and a gradient of zeros, in the stage's memory.
void set_up(parameter& which, stream& on, std::uint64_t seed, const initial_parameter& how);

} // namespace sluice::kernels::nn
