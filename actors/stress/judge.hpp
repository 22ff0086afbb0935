#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/report.hpp"
#include "actors/stress/reference.hpp"
#include "actors/stress/trial.hpp"
#include "actors/trainer.hpp"

// What is checked of a trial that has finished. Each function returns what is wrong in one line,
// and nothing if all is well.

namespace sluice::stress {

/// Every task ran once, one at a time, and each lane (or the one fixed order) in its order.
std::string order_complaint(const plan::plan& of, const actors::step_report& report);

/// No rank held more activations than its credits, nor than the verdict says.
std::string memory_complaint(const trial& of, const actors::step_report& report);

/// The step's loss and gradient norm are those of the serial run, to the last bit.
std::string step_complaint(const serial_run::result& expected, const actors::step_report& report);

/// Weights, optimizer state and gradients are those of the serial run, byte for byte.
std::string state_complaint(const reference& expected, const actors::model_state& state);

/// So are the predictions.
std::string prediction_complaint(const reference& expected,
                                 const std::vector<kernels::tensor_list>& outputs);

} // namespace sluice::stress
