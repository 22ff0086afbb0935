#include "kernels/torch/torch_module.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>

#include "kernels/nn/layer.hpp"
#include "kernels/torch/torch_tensor.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace sluice::kernels {

namespace {

dtype type_of(const at::Tensor& tensor, const std::string& module) {
  for (std::size_t i = 0; i < dtypes; ++i)
    if (torch_type(static_cast<dtype>(i)) == tensor.scalar_type())
      return static_cast<dtype>(i);
  throw std::invalid_argument(module + ": gave elements of " + toString(tensor.scalar_type())
                              + ", which do not pass between stages");
}

shape shape_of(const at::Tensor& of) {
  return shape(std::span<const std::int64_t>(of.sizes().data(), of.sizes().size()));
}

/// A copy in the stage's memory.
tensor copy(stream& on, const at::Tensor& from, const std::string& module) {
  auto to = on.allocate(type_of(from, module), shape_of(from));
  const auto packed = from.contiguous();
  std::memcpy(to.bytes_span().data(), packed.const_data_ptr(), to.bytes());
  return to;
}

/// Torch's memory as the stage's, packed and aligned as the operations want it; absent for an
/// undefined one. Whoever gets it does not write over it (tensor::unique()): autograd may need it.
tensor adopt(stream& on, const at::Tensor& from, const std::string& module) {
  if (!from.defined())
    return {};
  const auto packed = from.detach().contiguous();
  if (reinterpret_cast<std::uintptr_t>(packed.const_data_ptr()) % buffer_alignment_bytes != 0)
    return copy(on, packed, module);
  return on.pool().adopt(type_of(packed, module), shape_of(packed), packed.data_ptr(),
                         std::make_shared<at::Tensor>(packed));
}

bool lies_in(const at::Tensor& view, const tensor& memory) {
  return view.defined() && view.const_data_ptr() == memory.bytes_span().data();
}

/// What autograd keeps of one forward.
struct graph {
  torch_tensors inputs;           ///< views, as the module got them; undefined for absent ones
  torch_tensors outputs;          ///< of which the loss, if there is one, is the only one
  torch_tensors output_gradients; ///< between the two halves of a backward
};

[[noreturn]] void refuse_in_place(const std::string& module) {
  throw std::invalid_argument(module
                              + ": changes its input, or a weight, in place, where others "
                                "still need it: make it work out of place");
}

/// Torch's error with the module's name, and without its backtrace, as long as a page.
[[noreturn]] void explain(const std::string& module, const c10::Error& problem) {
  const std::string what = problem.what_without_backtrace();
  if (what.find("in-place") != std::string::npos)
    refuse_in_place(module);
  throw std::runtime_error(module + ": " + what);
}

/// What is called of a module, be it one of torch::nn or a scripted one.
struct module_calls {
  std::string name = {};
  std::function<void(bool)> train; ///< or, with false, only evaluates
  std::function<torch_tensors(const torch_tensors&)> forward;
};

/// What a layer needs of a module.
struct module_parts {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  torch_tensors buffers;
  bool has_children = false;
  module_calls calls;
};

/// One module, or several in a row under one graph: see absorb().
class torch_layer final : public nn::stage_module {
public:
  torch_layer(std::string name, module_parts module, torch_settings settings)
    : name_(std::move(name)),
      settings_(std::move(settings)),
      buffers_(std::move(module.buffers)) {
    module.calls.name = name_;
    modules_.push_back(std::move(module.calls));
    for (const auto& [key, value] : module.parameters)
      if (value.requires_grad()) {
        theirs_.push_back(value);
        parameters_.push_back({.name = name_ + "." + key, .decays = value.dim() > 1});
      }
    list_parameters();
    using backward = torch_settings::backward;
    split_ = settings_.halves == backward::split
          || (settings_.halves == backward::by_size && !module.has_children && !settings_.loss);
  }

  const std::string& name() const override { return name_; }
  nn::parameter_list parameters() override { return {pointers_, {}}; }
  const nn::module_ports* ports() const override { return &settings_.ports; }

  void skip_input_gradient(std::size_t input) override {
    skipped_.resize(std::max(skipped_.size(), input + 1));
    skipped_[input] = true;
  }

  void initialise(stream& on, std::uint64_t) override {
    if (!on.where().is_host())
      throw std::invalid_argument(name_ + ": modules of LibTorch run on the processor, not on "
                                  + on.where().name());
    at::set_num_threads(on.threads());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      auto& made = parameters_[i];
      made.value = copy(on, theirs_[i].detach(), name_);
      made.gradient = on.zeros(made.value.type(), made.value.shape());
      made.value.set_use(buffer_use::parameter);
      made.gradient.set_use(buffer_use::parameter);
    }
  }

  bool absorb(nn::module_ptr& next) override;
  tensor_list forward(stream& on, const nn::micro_batch& which, tensor_list inputs,
                      nn::activation& save) override;
  tensor_list backward_input(stream& on, const nn::micro_batch& which, tensor_list gradients,
                             nn::activation& saved) override;
  void backward_weight(stream& on, const nn::micro_batch& which, nn::activation& saved) override;

private:
  void list_parameters();
  void bind();
  torch_tensors run_modules(const torch_tensors& inputs) const;
  bool keeps(const at::Tensor& output) const;
  void add_gradients(const torch_tensors& found, std::size_t first);

  std::string name_; ///< of the first module, and of the last if there are several
  std::vector<module_calls> modules_;
  std::optional<bool> trains_; ///< as the modules were told last
  torch_settings settings_;    ///< of the last module
  torch_tensors theirs_;       ///< torch's parameters, over the memory of ours
  torch_tensors gradients_;    ///< views of ours
  torch_tensors buffers_;      ///< torch's own
  std::vector<nn::parameter> parameters_;
  std::vector<nn::parameter*> pointers_;
  std::vector<bool> skipped_; ///< inputs that want no gradient
  bool split_ = false;
};

void torch_layer::list_parameters() {
  pointers_.clear();
  for (auto& each : parameters_)
    pointers_.push_back(&each);
}

/// One call of autograd for a whole chunk, and no border between its modules to prepare.
bool torch_layer::absorb(nn::module_ptr& next) {
  auto* const other = dynamic_cast<torch_layer*>(next.get());
  const auto one_to_one = [](const torch_layer& of) {
    return of.settings_.ports.takes.empty() && of.settings_.ports.gives.empty();
  };
  if (other == nullptr || settings_.loss || !one_to_one(*this) || !one_to_one(*other))
    return false;
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(modules_, other->modules_);
  append(theirs_, other->theirs_);
  append(buffers_, other->buffers_);
  append(parameters_, other->parameters_);
  list_parameters();
  name_ = modules_.front().name + " to " + modules_.back().name;
  settings_ = std::move(other->settings_);
  next.reset();
  return true;
}

/// Sluice may have given a parameter other memory: a twin's, or another version's.
void torch_layer::bind() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < theirs_.size(); ++i)
    if (!lies_in(theirs_[i], parameters_[i].value))
      theirs_[i].set_data(view(parameters_[i].value));
}

/// Whether an output is what the module itself may write over later: a buffer, or a weight.
bool torch_layer::keeps(const at::Tensor& output) const {
  const auto aliased = [&](const at::Tensor& own) { return own.is_alias_of(output); };
  return output.defined()
      && (std::ranges::any_of(theirs_, aliased) || std::ranges::any_of(buffers_, aliased));
}

/// The modules one after another. Torch itself notices what is changed in place only where there is
/// a gradient.
torch_tensors torch_layer::run_modules(const torch_tensors& inputs) const {
  auto values = inputs;
  for (const auto& module : modules_)
    try {
      std::vector<std::uint32_t> versions;
      for (const auto& each : values)
        versions.push_back(each.defined() ? each._version() : 0);
      auto outputs = module.forward(values);
      for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i].defined() && values[i]._version() != versions[i])
          refuse_in_place(module.name);
      for (auto& each : outputs)
        if (keeps(each))
          each = each.clone();
      values = std::move(outputs);
    } catch (const c10::Error& problem) {
      explain(module.name, problem);
    }
  return values;
}

tensor_list torch_layer::forward(stream& on, const nn::micro_batch& which, tensor_list inputs,
                                 nn::activation& save) try {
  bind();
  const bool trains = nn::trains(which);
  if (trains_ != trains)
    for (const auto& each : modules_)
      each.train(trains);
  trains_ = trains;
  const at::AutoGradMode grad(nn::saves(which));
  const bool with_loss = settings_.loss && which.purpose != nn::purpose::predict;
  if (inputs.empty() || (with_loss && (inputs.size() < 2 || !inputs.back())))
    throw std::invalid_argument(name_ + ": no input, or no targets to compute the loss with");
  auto made = std::make_shared<graph>();
  const auto given = inputs.size() - (settings_.loss && inputs.size() > 1 ? 1 : 0);
  for (std::size_t i = 0; i < given; ++i) {
    made->inputs.push_back(inputs[i] ? view(inputs[i]) : at::Tensor{});
    const bool skipped = i < skipped_.size() && skipped_[i];
    if (nn::saves(which) && inputs[i] && is_floating(inputs[i].type()) && !skipped)
      made->inputs.back().set_requires_grad(true);
  }
  made->outputs = run_modules(made->inputs);
  tensor_list outputs;
  if (with_loss) {
    made->outputs = {settings_.loss(made->outputs.at(0), view(inputs.back()))};
    outputs.push_back(on.allocate(dtype::float64, {}));
    outputs[0].data<double>()[0] = made->outputs[0].item<double>();
  } else {
    for (const auto& each : made->outputs)
      outputs.push_back(adopt(on, each, name_));
  }
  if (nn::saves(which))
    save.foreign = std::move(made);
  return outputs;
} catch (const c10::Error& problem) {
  explain(name_, problem);
}

tensor_list torch_layer::backward_input(stream& on, const nn::micro_batch& which,
                                        tensor_list gradients, nn::activation& saved) try {
  bind(); // Autograd saves a parameter itself, not what it held in the forward.
  const auto kept = std::static_pointer_cast<graph>(saved.foreign);
  torch_tensors outputs;
  for (std::size_t i = 0; i < kept->outputs.size(); ++i) {
    const auto& output = kept->outputs[i];
    const bool comes = settings_.loss || (i < gradients.size() && gradients[i]);
    if (!comes || !output.defined() || !output.requires_grad())
      continue;
    outputs.push_back(output);
    kept->output_gradients.push_back(settings_.loss ? at::full_like(output, which.loss_scale)
                                                    : view(gradients[i]));
  }
  kept->outputs = std::move(outputs);
  torch_tensors wanted;
  for (const auto& each : kept->inputs)
    if (each.defined() && each.requires_grad())
      wanted.push_back(each);
  const auto floats = wanted.size();
  const bool split = split_ && which.split && !theirs_.empty();
  if (!split)
    wanted.insert(wanted.end(), theirs_.begin(), theirs_.end());
  torch_tensors found;
  if (!kept->outputs.empty() && !wanted.empty())
    found =
      torch::autograd::grad(kept->outputs, wanted, kept->output_gradients, split, false, true);
  found.resize(wanted.size());
  tensor_list results;
  std::size_t next = 0;
  for (const auto& each : kept->inputs) {
    const bool has = each.defined() && each.requires_grad();
    results.push_back(has ? adopt(on, found[next], name_) : tensor{});
    next += has ? 1 : 0;
  }
  kept->inputs.clear();
  if (!split) {
    add_gradients(found, floats);
    saved.foreign.reset();
  }
  return results;
} catch (const c10::Error& problem) {
  explain(name_, problem);
}

void torch_layer::backward_weight(stream&, const nn::micro_batch&, nn::activation& saved) try {
  bind();
  const auto kept = std::static_pointer_cast<graph>(std::exchange(saved.foreign, nullptr));
  if (kept == nullptr || kept->outputs.empty()) // B has done it, or there is nothing to do
    return;
  add_gradients(
    torch::autograd::grad(kept->outputs, theirs_, kept->output_gradients, false, false, true), 0);
} catch (const c10::Error& problem) {
  explain(name_, problem);
}

/// As torch's own .grad: the sum in the order of the backwards.
void torch_layer::add_gradients(const torch_tensors& found, std::size_t first) {
  const at::NoGradGuard no_grad;
  gradients_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!lies_in(gradients_[i], parameters_[i].gradient))
      gradients_[i] = view(parameters_[i].gradient);
    if (const auto& each = found.at(first + i); each.defined())
      gradients_[i].add_(each);
  }
}

/// An absent tensor is None on both sides.
torch_tensors call_scripted(torch::jit::Module& module, const std::string& name,
                            std::span<const at::Tensor> inputs) {
  std::vector<c10::IValue> given;
  for (const auto& each : inputs)
    given.push_back(each.defined() ? c10::IValue(each) : c10::IValue());
  const auto made = module.forward(std::move(given));
  torch_tensors outputs;
  const auto take = [&](const c10::IValue& value) {
    if (!value.isTensor() && !value.isNone())
      throw std::invalid_argument(name + ": gives a " + value.tagKind()
                                  + ", where a tensor or a tuple of tensors is needed");
    outputs.push_back(value.isTensor() ? value.toTensor() : at::Tensor{});
  };
  if (made.isTuple())
    for (const auto& each : made.toTupleRef().elements())
      take(each);
  else
    take(made);
  return outputs;
}

} // namespace

nn::module_ptr make_torch_module(std::string name, std::shared_ptr<torch::nn::Module> module,
                                 std::function<torch_tensors(const torch_tensors&)> forward,
                                 torch_settings settings) {
  module_parts parts{
    .buffers = module->buffers(),
    .has_children = !module->children().empty(),
    .calls = {.train = [module](bool on) { module->train(on); }, .forward = std::move(forward)}};
  for (const auto& each : module->named_parameters())
    parts.parameters.emplace_back(each.key(), each.value());
  return std::make_unique<torch_layer>(std::move(name), std::move(parts), std::move(settings));
}

nn::module_ptr make_scripted_module(std::string name, torch::jit::Module module,
                                    torch_settings settings) {
  const bool several = !settings.ports.takes.empty(); // else targets may pass by
  module_parts parts{.has_children = module.children().size() > 0,
                     .calls = {.train = [module](bool on) mutable { module.train(on); },
                               .forward =
                                 [module, name, several](const torch_tensors& inputs) mutable {
                                   const std::span all(inputs);
                                   return call_scripted(module, name, several ? all : all.first(1));
                                 }}};
  for (const auto& each : module.named_parameters())
    parts.parameters.emplace_back(each.name, each.value);
  for (const auto& each : module.buffers())
    parts.buffers.push_back(each);
  return std::make_unique<torch_layer>(std::move(name), std::move(parts), std::move(settings));
}

std::vector<nn::module_ptr> torch_layers(const std::string& name, torch::nn::Sequential modules,
                                         torch_settings of_last) {
  std::vector<nn::module_ptr> layers;
  std::map<const void*, std::string> owners; // of each parameter
  for (std::size_t i = 0; i < modules->size(); ++i) {
    auto any = *(modules->begin() + static_cast<std::ptrdiff_t>(i));
    const auto layer = name + "." + std::to_string(i);
    for (const auto& each : any.ptr()->parameters()) {
      const auto& owner = owners.emplace(each.unsafeGetTensorImpl(), layer).first->second;
      if (owner != layer)
        throw std::invalid_argument(
          layer + ": shares a parameter with " + owner
          + ", and they may come to be on two stages: give each a module of its own, or put both "
            "into one module");
    }
    layers.push_back(make_torch_module(
      layer, any.ptr(),
      [any](const torch_tensors& inputs) mutable {
        return torch_tensors{any.forward<at::Tensor>(inputs.at(0))};
      },
      i + 1 == modules->size() ? std::move(of_last) : torch_settings{}));
  }
  return layers;
}

void keep_freed_memory([[maybe_unused]] std::size_t bytes) {
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, static_cast<int>(std::min<std::size_t>(bytes, INT_MAX)));
  // Larger blocks would each be a mapping of their own; glibc takes no higher threshold.
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(std::min<std::size_t>(bytes, 32u << 20)));
#endif
}

} // namespace sluice::kernels
