#pragma once

#include <string>
#include <vector>

#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::nn {

/// Modules one after another, each taking what the one before gives: what a chunk runs.
///
/// Parameters: those of all modules, in their order. W runs from the last module to the first.
/// Errors: std::invalid_argument without modules.
class sequential final : public stage_module {
public:
  sequential(std::string name, std::vector<module_ptr> modules);

  const std::string& name() const override { return name_; }
  tensor_list forward(stream& on, const micro_batch& which, tensor_list inputs,
                      activation& save) override;
  tensor_list backward_input(stream& on, const micro_batch& which, tensor_list output_gradients,
                             activation& saved) override;
  void backward_weight(stream& on, const micro_batch& which, activation& saved) override;
  parameter_list parameters() override { return {parameters_, {}}; }
  void initialise(stream& on, std::uint64_t seed) override;
  activation make_activation() const override;

  const std::vector<module_ptr>& modules() const noexcept { return modules_; }

private:
  std::string name_;
  std::vector<module_ptr> modules_;
  std::vector<parameter*> parameters_;
};

} // namespace sluice::kernels::nn
