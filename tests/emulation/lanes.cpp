#include "tests/emulation/lanes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/emulation/device_code.hpp"
#include "tests/emulation/fiber.hpp"

namespace sluice::emulation {

namespace {

constexpr unsigned warp_lanes = 32;
constexpr std::size_t static_shared_limit = 48 << 10;

enum class lane_state : std::uint8_t { fresh, ready, at_barrier, in_warp, done };

struct lane {
  uint3 thread{};
  lane_state state = lane_state::fresh;
  fiber* on = nullptr;
  unsigned exchanges = 0;
};

/// The operation that the lanes of a warp are gathering for. Two sets of values alternate: nobody
/// can begin the operation after the next before all have read this one.
struct warp {
  unsigned present = 0; ///< lanes that exist
  unsigned arrived = 0;
  int operation = 0;
  std::array<std::array<std::uint64_t, warp_lanes>, 2> values{};
};

struct shared_variable {
  const void* tag;
  std::unique_ptr<std::byte[]> memory;
  std::size_t bytes;
};

struct runner {
  const launch* what = nullptr;
  const std::function<void()>* body = nullptr;
  fiber thread;
  std::vector<std::unique_ptr<fiber>> fibers;
  std::vector<fiber*> idle;
  fiber* current = nullptr;
  std::vector<lane> lanes;
  std::vector<unsigned> order;
  unsigned at = 0; ///< the running lane
  bool in_lane = false;
  unsigned live = 0;
  unsigned waiting = 0; ///< at the barrier
  std::vector<warp> warps;
  std::vector<shared_variable> shared;
  std::vector<std::byte> dynamic;
  std::string error;
  std::mt19937_64 random;
};

lane_order order_mode = lane_order::forward;
std::uint64_t order_seed = 1;
// Never destroyed: the engine's thread outlives statics.
auto& now = *new std::unique_ptr<runner>;
auto& stuck = *new std::vector<std::unique_ptr<runner>>;

void to_thread() {
  now->in_lane = false;
  auto* self = std::exchange(now->current, &now->thread);
  now->thread.resume_from(*self);
}

void finish_barrier_if_complete() {
  if (now->live == 0 || now->waiting < now->live)
    return;
  now->waiting = 0;
  for (auto& each : now->lanes)
    if (each.state == lane_state::at_barrier)
      each.state = lane_state::ready;
}

/// A fiber runs one lane after another, as long as they end without a wait.
void fiber_entry() {
  for (;;) {
    (*now->body)();
    now->lanes[now->at].state = lane_state::done;
    --now->live;
    finish_barrier_if_complete();
    now->idle.push_back(now->current);
    to_thread();
  }
}

void run_lane(unsigned index) {
  auto& chosen = now->lanes[index];
  if (chosen.state == lane_state::fresh) {
    if (now->idle.empty()) {
      now->fibers.push_back(std::make_unique<fiber>(fiber_entry));
      now->idle.push_back(now->fibers.back().get());
    }
    chosen.on = now->idle.back();
    now->idle.pop_back();
  }
  chosen.state = lane_state::ready;
  now->at = index;
  now->in_lane = true;
  threadIdx = chosen.thread;
  now->current = chosen.on;
  chosen.on->resume_from(now->thread);
}

[[noreturn]] void fail(std::string why) {
  now->error = std::move(why);
  to_thread();
  __builtin_unreachable();
}

std::string describe_stuck() {
  std::string text = "lanes of a block wait for each other:";
  std::array<unsigned, 5> count{};
  for (const auto& each : now->lanes)
    ++count[static_cast<std::size_t>(each.state)];
  const auto add = [&](lane_state state, const char* doing) {
    const auto n = count[static_cast<std::size_t>(state)];
    if (n == 0)
      return;
    const auto found = std::ranges::find(now->lanes, state, &lane::state);
    text += " " + std::to_string(n) + " " + doing + " (first: thread "
          + std::to_string(found - now->lanes.begin()) + ");";
  };
  add(lane_state::at_barrier, "at __syncthreads");
  add(lane_state::in_warp, "in a warp operation");
  add(lane_state::done, "have ended");
  return text;
}

void start_block(std::size_t block) {
  const auto& grid = now->what->grid;
  const auto index = static_cast<unsigned>(block);
  blockIdx = {index % grid.x, index / grid.x % grid.y, index / (grid.x * grid.y)};
  for (auto& each : now->lanes)
    each.state = lane_state::fresh, each.exchanges = 0;
  for (std::size_t w = 0; w < now->warps.size(); ++w) {
    const auto left = now->lanes.size() - w * warp_lanes;
    now->warps[w].present = left >= warp_lanes ? ~0U : (1U << left) - 1;
    now->warps[w].arrived = 0;
  }
  now->live = static_cast<unsigned>(now->lanes.size());
  now->waiting = 0;
  for (auto& each : now->shared)
    std::memset(each.memory.get(), 0xFF, each.bytes);
  std::ranges::fill(now->dynamic, std::byte{0xFF});
  if (order_mode == lane_order::random)
    std::ranges::shuffle(now->order, now->random);
}

void run_block(std::size_t block) {
  start_block(block);
  while (now->live > 0) {
    bool progress = false;
    for (const auto index : now->order) {
      const auto state = now->lanes[index].state;
      if (state != lane_state::fresh && state != lane_state::ready)
        continue;
      progress = true;
      run_lane(index);
      if (!now->error.empty())
        return;
    }
    if (!progress) {
      now->error = describe_stuck();
      return;
    }
  }
}

void prepare(const launch& what, const std::function<void()>& body) {
  if (now == nullptr)
    now = std::make_unique<runner>();
  now->what = &what;
  now->body = &body;
  now->error.clear();
  now->random.seed(order_seed);
  now->shared.clear();
  now->dynamic.resize(what.shared_bytes);
  blockDim = what.block;
  gridDim = what.grid;
  const std::size_t count = std::size_t{what.block.x} * what.block.y * what.block.z;
  now->lanes.assign(count, {});
  now->warps.assign((count + warp_lanes - 1) / warp_lanes, {});
  now->order.resize(count);
  std::iota(now->order.begin(), now->order.end(), 0U);
  if (order_mode == lane_order::reverse)
    std::ranges::reverse(now->order);
  for (unsigned i = 0; i < count; ++i)
    now->lanes[i].thread = {i % what.block.x, i / what.block.x % what.block.y,
                            i / (what.block.x * what.block.y)};
}

} // namespace

void set_lane_order(lane_order order, std::uint64_t seed) {
  order_mode = order;
  order_seed = seed;
}

std::string run_grid(const launch& what, const std::function<void()>& body) {
  prepare(what, body);
  const std::size_t blocks = std::size_t{what.grid.x} * what.grid.y * what.grid.z;
  std::vector<std::size_t> order(blocks);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (order_mode == lane_order::reverse)
    std::ranges::reverse(order);
  else if (order_mode == lane_order::random)
    std::ranges::shuffle(order, now->random);
  for (const auto block : order) {
    run_block(block);
    if (now->error.empty())
      continue;
    auto error =
      std::string("kernel ") + what.kernel + ", block " + std::to_string(block) + ": " + now->error;
    stuck.push_back(std::move(now)); // its fibers stand where they are, for good
    return error;
  }
  return {};
}

void running_lane(std::span<char> into) {
  if (now == nullptr || !now->in_lane)
    std::snprintf(into.data(), into.size(), "host code");
  else
    std::snprintf(into.data(), into.size(), "kernel %s, block (%u, %u, %u), thread (%u, %u, %u)",
                  now->what->kernel, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y,
                  threadIdx.z);
}

namespace on_lane {

namespace {

// Gives the processor away; comes back once somebody made this lane ready.
void wait(lane_state state) {
  const auto me = now->at;
  now->lanes[me].state = state;
  if (state == lane_state::at_barrier)
    finish_barrier_if_complete();
  to_thread();
}

} // namespace

unsigned index() {
  return now->at;
}

void barrier() {
  ++now->waiting;
  wait(lane_state::at_barrier);
}

const std::byte* exchange(unsigned mask, int operation, const void* value, std::size_t bytes) {
  const auto me = now->at;
  auto& mine = now->warps[me / warp_lanes];
  const auto in_warp = me % warp_lanes;
  if (mask != ~0U)
    fail("a warp operation for some lanes only is not emulated");
  if (mine.arrived == 0)
    mine.operation = operation;
  else if (mine.operation != operation)
    fail("the lanes of a warp are in different warp operations");
  auto& values = mine.values[now->lanes[me].exchanges++ % 2];
  std::memcpy(&values[in_warp], value, bytes);
  mine.arrived |= 1U << in_warp;
  if (mine.arrived != mine.present) {
    wait(lane_state::in_warp);
  } else {
    mine.arrived = 0;
    const auto first = me - in_warp;
    const auto end = std::min<std::size_t>(first + warp_lanes, now->lanes.size());
    for (auto other = first; other < end; ++other)
      if (now->lanes[other].state == lane_state::in_warp)
        now->lanes[other].state = lane_state::ready;
  }
  return reinterpret_cast<const std::byte*>(values.data());
}

void* shared(const void* tag, std::size_t bytes) {
  for (const auto& each : now->shared)
    if (each.tag == tag)
      return each.memory.get();
  auto total = bytes;
  for (const auto& each : now->shared)
    total += each.bytes;
  if (total > static_shared_limit)
    fail("more than 48 KiB of static shared memory");
  now->shared.push_back({tag, std::make_unique<std::byte[]>(bytes), bytes});
  std::memset(now->shared.back().memory.get(), 0xFF, bytes);
  return now->shared.back().memory.get();
}

void* dynamic_shared() {
  return now->dynamic.data();
}

} // namespace on_lane
} // namespace sluice::emulation
