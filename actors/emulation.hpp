#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <caf/timespan.hpp>

#include "actors/pipeline.hpp"
#include "actors/plan/simulate.hpp"

namespace sluice::actors {

/// Devices that take time without computing: the real actors, messages and channels run a plan as
/// if each task took what the conditions say. A laptop runs 64 such stages.
///
/// Units of the conditions: seconds. What is emulated are the times and the noise of tasks; links
/// and memory are this process's. The conditions' patience is the stages'.
struct emulation {
  plan::conditions conditions = {};
};

/// "emulated:F=10ms:B=10ms:W=10ms:jitter=lognormal/0.3:slow=0.1x4:seed=7"
///
/// F, B, W: of one of P equal stages; a chunk takes its share. B is the input gradient: a whole
/// backward takes B + W. jitter: a lognormal factor of that sigma, mean 1. slow: that share of
/// tasks takes so many times as long. All but the name may be left out; times are 1 ms then.
/// Errors: std::invalid_argument that says which part is wrong and what is expected.
emulation parse_emulation(std::string_view device);

/// Whether a device's name is one of an emulated device.
bool is_emulated(std::string_view device);

/// Turns a pipeline into an emulated one: layers that pass a few bytes on and have no parameters,
/// and tasks that take their time. Sets layers, cut, extra_time, patience and detached.
/// Thread: also lets the timers of the calling thread, and of the threads that it starts from now
/// on, be exact to a nanosecond (Linux): else each task would end 50 us late.
void emulate(pipeline_options& options, const emulation& with);

/// A batch for emulated layers: a few bytes a micro-batch.
batch emulated_batch(std::int32_t micro_batches);

} // namespace sluice::actors
