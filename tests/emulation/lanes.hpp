#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace sluice::emulation {

/// A kernel launch, as the runtime sees it.
struct launch {
  const char* kernel = "";
  const void* function = nullptr;
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0; ///< dynamic
};

/// In which order the lanes of a block, and the blocks of a grid, get the processor. A kernel
/// without a race gives the same bits in all of them.
enum class lane_order : std::uint8_t { forward, reverse, random };
void set_lane_order(lane_order order, std::uint64_t seed = 1);

/// Runs a grid, block after block, the lanes of a block as fibers that change only at barriers and
/// warp operations. Shared memory is full of 0xFF at the start of each block.
/// Thread: one at a time. Returns what went wrong, or nothing.
std::string run_grid(const launch& what, const std::function<void()>& lane);

/// "kernel k, block (1, 0, 0), thread (3, 0, 0)" while a lane runs, else "host code". For signal
/// handlers: allocates nothing.
void running_lane(std::span<char> into);

/// What kernels call; see device_code.hpp.
namespace on_lane {

unsigned index(); ///< of the thread in its block

/// Waits for all lanes of the block that have not ended.
void barrier();

/// The values that the lanes of this warp give to the same operation, 8 bytes apart; valid until
/// the lane's operation after the next. All 32 lanes take part, or those that exist.
const std::byte* exchange(unsigned mask, int operation, const void* value, std::size_t bytes);

/// The shared variable that `tag` stands for.
void* shared(const void* tag, std::size_t bytes);
void* dynamic_shared();

} // namespace on_lane
} // namespace sluice::emulation
