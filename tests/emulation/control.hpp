#pragma once

#include <cstdint>
#include <string>

#include "tests/emulation/lanes.hpp"

// How tests steer the emulation of CUDA and NCCL on the processor. None of this exists in CUDA.
// Call the setters between runs, while nothing is enqueued.

namespace sluice::emulation {

/// When enqueued operations run.
enum class schedule : std::uint8_t {
  eager,  ///< at once, in the order in which they were enqueued
  random, ///< any that may, after random pauses
  lazy,   ///< only what somebody waits for, and not before; host functions after a quiet moment
};
void set_schedule(schedule which, std::uint64_t seed = 1);

/// Which NCCL operations of one GPU may be under way together.
enum class device_model : std::uint8_t {
  one_resident, ///< one, in the order in which the host issued them: the least that CUDA promises
  independent,  ///< one of each communicator
};
void set_device_model(device_model which);

/// Whether an NCCL send needs its receive.
enum class send_model : std::uint8_t {
  rendezvous,    ///< it runs together with its receive
  eight_credits, ///< it copies out and ends, up to eight ahead of the receives
};
void set_send_model(send_model which);

/// Whether cuBLASLt finds algorithms with a GELU fused; true at first.
void set_fused_gelu(bool exists);

/// What follows a proven cycle of waits: abort() ends the process, fail makes the waits return
/// errors.
enum class on_deadlock : std::uint8_t { abort, fail };
void set_on_deadlock(on_deadlock what);

/// The members of the first cycle since reset_findings(), or of what stood still for two seconds;
/// empty if there was none.
std::string first_deadlock();

/// Rules that were broken so far: bad pointers, memory written out of bounds, mismatched transfers,
/// calls that may not be made. Each is also written to stderr.
long violations();
std::string last_violation();

/// Forgets violations, deadlocks and broken devices.
void reset_findings();

/// Devices that cudaGetDeviceCount() reports; 4 at first. 0: as on a machine without a driver.
void set_device_count(int count);

/// How often cudaMalloc() was called so far.
long device_allocations();

/// How many kernels were launched so far whose name begins so.
long launches_of(const std::string& kernel);

} // namespace sluice::emulation
