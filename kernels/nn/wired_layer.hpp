#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/nn/ports.hpp"
#include "kernels/nn/stage_module.hpp"

namespace sluice::kernels::nn {

/// Where the tensors around a layer come from and go to; made by wire(). The lists are
///
///     in:   losses of this part so far, values that live here, targets (in the last part)
///     out:  the same and own losses,    values that live on,   targets
///
/// For a prediction there are no losses; the last layer of a model gives its outputs alone.
struct wiring {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct source {
    std::size_t at = none; ///< among the values, or the targets; none: an optional one not there
    bool target = false;
    bool last_use = false; ///< the handle is given away
  };
  struct passed_on {
    std::size_t value = none;  ///< one that came in
    std::size_t output = none; ///< or one that the layer gives
  };
  module_ports ports = {};
  bool declared = true; ///< by the module itself: its tensors are checked
  bool model_end = false;
  std::size_t losses_before = 0; ///< in this part
  std::size_t own_losses = 0;
  std::size_t values_in = 0;
  std::size_t targets = 0; ///< that may come behind them
  std::vector<source> takes = {};
  std::vector<passed_on> values_out = {};
};

/// A layer between what picks its inputs and what passes the other values on.
class wired_layer final : public stage_module {
public:
  wired_layer(module_ptr inner, wiring how);

  const std::string& name() const override { return inner_->name(); }
  tensor_list forward(stream& on, const micro_batch& which, tensor_list inputs,
                      activation& save) override;
  tensor_list backward_input(stream& on, const micro_batch& which, tensor_list output_gradients,
                             activation& saved) override;
  void backward_weight(stream& on, const micro_batch& which, activation& saved) override;
  parameter_list parameters() override { return inner_->parameters(); }
  void initialise(stream& on, std::uint64_t seed) override { inner_->initialise(on, seed); }
  activation make_activation() const override;

private:
  tensor_list pick(tensor_list& inputs, std::size_t losses) const;
  void check_outputs(const micro_batch& which, const tensor_list& outputs) const;
  bool runs(const micro_batch& which) const;

  module_ptr inner_;
  wiring how_;
};

} // namespace sluice::kernels::nn
