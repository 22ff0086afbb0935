#include "actors/emulation.hpp"

#include <charconv>
#include <memory>
#include <stdexcept>

#include <sys/prctl.h>

#include <fmt/format.h>

namespace sluice::actors {

namespace {

constexpr std::string_view prefix = "emulated";
constexpr auto syntax = "emulated:F=10ms:B=10ms:W=10ms:jitter=lognormal/0.3:slow=0.1x4:seed=7";

[[noreturn]] void refuse(std::string_view part) {
  throw std::invalid_argument(
    fmt::format("'{}' is not understood in a device; write as in {}", part, syntax));
}

/// Reads a number off the front of `text`.
double number(std::string_view& text, std::string_view part) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || value < 0)
    refuse(part);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

double seconds(std::string_view text, std::string_view part) {
  const auto value = number(text, part);
  if (text == "s")
    return value;
  if (text == "ms")
    return value * 1e-3;
  if (text == "us")
    return value * 1e-6;
  refuse(part);
}

void read_part(plan::conditions& into, std::string_view part) {
  const auto equals = part.find('=');
  if (equals == std::string_view::npos)
    refuse(part);
  const auto key = part.substr(0, equals);
  auto value = part.substr(equals + 1);
  if (key == "F") {
    into.stage.forward = seconds(value, part);
  } else if (key == "B") {
    into.stage.backward = seconds(value, part);
  } else if (key == "W") {
    into.stage.weight = seconds(value, part);
  } else if (key == "jitter" && value.starts_with("lognormal/")) {
    value.remove_prefix(std::string_view("lognormal/").size());
    into.noise.sigma = number(value, part);
    if (!value.empty())
      refuse(part);
  } else if (key == "slow") {
    into.noise.slow_share = number(value, part);
    if (!value.starts_with('x'))
      refuse(part);
    value.remove_prefix(1);
    into.noise.slow_factor = number(value, part);
    if (!value.empty())
      refuse(part);
  } else if (key == "seed") {
    into.noise.seed = static_cast<std::uint64_t>(number(value, part));
  } else {
    refuse(part);
  }
}

/// Passes its first input on; as the last layer, gives a loss of zero.
class emulated_layer final : public kernels::nn::stage_module {
public:
  emulated_layer(std::size_t index, bool last)
    : name_(fmt::format("emulated.{}", index)),
      last_(last) {}

  const std::string& name() const override { return name_; }

  kernels::tensor_list forward(kernels::stream& on, const kernels::nn::micro_batch& which,
                               kernels::tensor_list inputs,
                               kernels::nn::activation& save) override {
    auto output = on.zeros(inputs.at(0).type(), inputs[0].shape());
    if (which.purpose == kernels::nn::purpose::train)
      save.saved.push_back(std::move(inputs[0]));
    if (last_ && which.purpose != kernels::nn::purpose::predict)
      return {on.zeros(kernels::dtype::float64, {})};
    return {std::move(output)};
  }

  kernels::tensor_list backward_input(kernels::stream& on, const kernels::nn::micro_batch&,
                                      kernels::tensor_list,
                                      kernels::nn::activation& saved) override {
    const auto& input = saved.saved.at(0);
    return {on.zeros(input.type(), input.shape())};
  }

  void backward_weight(kernels::stream&, const kernels::nn::micro_batch&,
                       kernels::nn::activation& saved) override {
    saved.saved.clear();
  }

  kernels::nn::parameter_list parameters() override {
    return {std::span<kernels::nn::parameter* const>{}, {}};
  }

  void initialise(kernels::stream&, std::uint64_t) override {}

private:
  std::string name_;
  bool last_;
};

} // namespace

bool is_emulated(std::string_view device) {
  return device == prefix || device.starts_with("emulated:");
}

emulation parse_emulation(std::string_view device) {
  if (!is_emulated(device))
    refuse(device);
  emulation result;
  result.conditions.stage = {.forward = 1e-3, .backward = 1e-3, .weight = 1e-3};
  result.conditions.patience = plan::default_patience_seconds;
  device.remove_prefix(std::min(device.size(), prefix.size() + 1));
  while (!device.empty()) {
    const auto colon = std::min(device.find(':'), device.size());
    read_part(result.conditions, device.substr(0, colon));
    device.remove_prefix(std::min(device.size(), colon + 1));
  }
  return result;
}

void emulate(pipeline_options& options, const emulation& with) {
  const auto parts = static_cast<std::size_t>(options.plan.parts);
  options.layers = [parts] {
    std::vector<kernels::nn::module_ptr> layers;
    for (std::size_t i = 0; i < parts; ++i)
      layers.push_back(std::make_unique<emulated_layer>(i, i + 1 == parts));
    return layers;
  };
  options.cut.assign(parts, 1);
  options.detached = false;
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  options.patience = std::chrono::round<std::chrono::nanoseconds>(
    std::chrono::duration<double>{with.conditions.patience});
  options.extra_time = [plan = std::make_shared<const plan::plan>(options.plan),
                        conditions = with.conditions](std::int32_t rank, const plan::task& task,
                                                      bool split) {
    const std::chrono::duration<double> time{
      plan::task_duration(*plan, conditions, rank, task, split)};
    return std::chrono::duration_cast<caf::timespan>(time);
  };
}

batch emulated_batch(std::int32_t micro_batches) {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  batch result;
  for (std::int32_t m = 0; m < micro_batches; ++m)
    result.push_back(
      {{pool.zeros(kernels::dtype::float32, {1})}, {pool.zeros(kernels::dtype::int32, {1})}, 1, 1});
  return result;
}

} // namespace sluice::actors
