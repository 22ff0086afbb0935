#include "kernels/buffer_pool.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace sluice::kernels {

/// A buffer and who holds it. Blocks are made once and recycled with their memory.
struct block {
  void* memory = nullptr;
  std::size_t capacity_bytes = 0;
  std::size_t size_class = 0;
  std::atomic<std::uint32_t> references{0};
  buffer_use use = buffer_use::scratch;
  bool noted = false;                       ///< allocated by the task that is being noted
  bool adopted = false;                     ///< the memory is another library's
  std::shared_ptr<void> owner;              ///< of adopted memory
  std::shared_ptr<buffer_pool::core> home;  ///< where the memory returns to; empty when free
  std::shared_ptr<buffer_pool::core> payer; ///< whose usage counts it; often == home
  block* next_free = nullptr;
};

/// One mutex guards everything: it is held for a few instructions, and except for buffers handed
/// over between stages only one thread ever takes it.
struct buffer_pool::core {
  std::shared_ptr<device> memory;
  std::size_t limit_bytes = 0;
  std::mutex guard;
  std::array<block*, task_demand::classes> free{};
  std::array<std::uint32_t, task_demand::classes> made{}; ///< blocks that exist, by class
  std::vector<std::unique_ptr<block>> blocks;
  std::vector<std::unique_ptr<block>> adopted; ///< blocks that stand for others' memory
  block* free_adopted = nullptr;
  pool_usage usage;
  std::atomic<bool> poison = false;

  bool noting = false;
  std::vector<block*> noted;
  std::array<std::uint32_t, task_demand::classes> noted_live{};
  std::array<std::uint32_t, task_demand::classes> noted_peak{};

  ~core() {
    for (auto& owned : blocks)
      memory->deallocate(owned->memory, owned->capacity_bytes);
  }

  void charge(buffer_use use, std::size_t bytes) {
    const auto at = static_cast<std::size_t>(use);
    usage.live_bytes[at] += bytes;
    usage.peak_bytes[at] = std::max(usage.peak_bytes[at], usage.live_bytes[at]);
    usage.live_total_bytes += bytes;
    usage.peak_total_bytes = std::max(usage.peak_total_bytes, usage.live_total_bytes);
  }

  void discharge(buffer_use use, std::size_t bytes) {
    usage.live_bytes[static_cast<std::size_t>(use)] -= bytes;
    usage.live_total_bytes -= bytes;
  }

  block* take_from_device(std::size_t size_class);
  void give_back_free(std::size_t bytes);
  void release(block* returned);
};

namespace {

// Classes: 64 bytes, then eight per power of two. Class 8 * e + f holds (8 + f) << e bytes of 8.
constexpr std::size_t granule_bytes = 8;

std::size_t class_of(std::size_t bytes) {
  const std::size_t units = std::max<std::size_t>(8, (bytes + granule_bytes - 1) / granule_bytes);
  auto exponent = static_cast<std::size_t>(std::bit_width(units) - 4);
  std::size_t fraction = (units + (std::size_t{1} << exponent) - 1) >> exponent; // 8..16
  if (fraction == 16) {
    ++exponent;
    fraction = 8;
  }
  return 8 * exponent + (fraction - 8);
}

std::size_t class_bytes(std::size_t size_class) {
  return ((8 + size_class % 8) << (size_class / 8)) * granule_bytes;
}

} // namespace

/// Returns free buffers to the device, the largest first, until there is room for `bytes`: they may
/// be of sizes that nobody asks for any more.
void buffer_pool::core::give_back_free(std::size_t bytes) {
  for (std::size_t i = task_demand::classes; i-- > 0;)
    while (free[i] != nullptr && usage.device_bytes + bytes > limit_bytes) {
      auto* gone = std::exchange(free[i], free[i]->next_free);
      memory->deallocate(gone->memory, gone->capacity_bytes);
      usage.device_bytes -= gone->capacity_bytes;
      --made[i];
      std::erase(noted, gone);
      std::erase_if(blocks, [&](const auto& owned) { return owned.get() == gone; });
    }
}

block* buffer_pool::core::take_from_device(std::size_t size_class) {
  const auto bytes = class_bytes(size_class);
  if (limit_bytes != 0)
    give_back_free(bytes);
  if (limit_bytes != 0 && usage.device_bytes + bytes > limit_bytes)
    throw out_of_memory(fmt::format("device {}: {} bytes more would exceed the limit of {} bytes "
                                    "({} taken, {} in use)",
                                    memory->name(), bytes, limit_bytes, usage.device_bytes,
                                    usage.live_total_bytes));
  auto fresh = std::make_unique<block>();
  try {
    fresh->memory = memory->allocate(bytes);
  } catch (const std::bad_alloc&) {
    throw out_of_memory(fmt::format("device {} is out of memory: asked for {} bytes, {} taken",
                                    memory->name(), bytes, usage.device_bytes));
  }
  fresh->capacity_bytes = bytes;
  fresh->size_class = size_class;
  usage.device_bytes += bytes;
  ++usage.device_allocations;
  ++made[size_class];
  blocks.push_back(std::move(fresh));
  noted.reserve(blocks.size());
  return blocks.back().get();
}

void buffer_pool::core::release(block* returned) {
  if (returned->adopted) {
    returned->owner.reset();
    const std::lock_guard lock(guard);
    returned->next_free = std::exchange(free_adopted, returned);
    return;
  }
  if (poison)
    memory->fill(returned->memory, std::byte{0xFF}, returned->capacity_bytes);
  const std::lock_guard lock(guard);
  if (returned->noted)
    --noted_live[returned->size_class];
  returned->noted = false;
  returned->next_free = free[returned->size_class];
  free[returned->size_class] = returned;
}

buffer_pool::buffer_pool(std::shared_ptr<device> memory, std::size_t limit_bytes)
  : core_(std::make_shared<core>()) {
  core_->memory = std::move(memory);
  core_->limit_bytes = limit_bytes;
}

/// The first handle to a block, under the lock.
void buffer_pool::hand_out(block* taken) {
  taken->home = core_;
  taken->payer = core_;
  taken->use = buffer_use::scratch;
  taken->references.store(1, std::memory_order_relaxed);
  core_->charge(taken->use, taken->capacity_bytes);
}

tensor buffer_pool::allocate(dtype type, const shape& extents) {
  const auto bytes = static_cast<std::size_t>(extents.elements()) * size_bytes(type);
  const auto size_class = class_of(bytes);
  if (size_class >= task_demand::classes)
    throw out_of_memory(fmt::format("a tensor of {} bytes is larger than any buffer", bytes));
  const std::lock_guard lock(core_->guard);
  block* taken = core_->free[size_class];
  if (taken != nullptr)
    core_->free[size_class] = taken->next_free;
  else
    taken = core_->take_from_device(size_class);
  hand_out(taken);
  if (core_->noting) {
    taken->noted = true;
    core_->noted.push_back(taken);
    auto& live = core_->noted_live[size_class];
    ++live;
    core_->noted_peak[size_class] = std::max(core_->noted_peak[size_class], live);
  }
  return {taken, type, extents};
}

tensor buffer_pool::adopt(dtype type, const shape& extents, void* memory,
                          std::shared_ptr<void> owner) {
  const std::lock_guard lock(core_->guard);
  if (core_->free_adopted == nullptr) {
    core_->adopted.push_back(std::make_unique<block>());
    core_->adopted.back()->adopted = true;
    core_->free_adopted = core_->adopted.back().get();
  }
  block* taken = std::exchange(core_->free_adopted, core_->free_adopted->next_free);
  taken->memory = memory;
  taken->capacity_bytes = static_cast<std::size_t>(extents.elements()) * size_bytes(type);
  taken->owner = std::move(owner);
  hand_out(taken);
  return {taken, type, extents};
}

tensor buffer_pool::zeros(dtype type, const shape& extents) {
  auto result = allocate(type, extents);
  core_->memory->fill(result.bytes_span().data(), std::byte{0}, result.bytes());
  return result;
}

void buffer_pool::begin_task() {
  const std::lock_guard lock(core_->guard);
  core_->noting = true;
  core_->noted.clear();
  core_->noted_live.fill(0);
  core_->noted_peak.fill(0);
}

buffer_pool::task_demand buffer_pool::end_task() {
  const std::lock_guard lock(core_->guard);
  core_->noting = false;
  for (auto* still : core_->noted)
    still->noted = false;
  task_demand demand;
  demand.kept = core_->noted_live;
  for (std::size_t i = 0; i < task_demand::classes; ++i)
    demand.dropped[i] = core_->noted_peak[i] - core_->noted_live[i];
  return demand;
}

void buffer_pool::task_demand::add(const task_demand& other, std::size_t times) {
  for (std::size_t i = 0; i < classes; ++i) {
    kept[i] += other.kept[i] * static_cast<std::uint32_t>(times);
    dropped[i] = std::max(dropped[i], other.dropped[i]);
  }
}

void buffer_pool::task_demand::widen(const task_demand& other) {
  for (std::size_t i = 0; i < classes; ++i) {
    kept[i] = std::max(kept[i], other.kept[i]);
    dropped[i] = std::max(dropped[i], other.dropped[i]);
  }
}

void buffer_pool::task_demand::keep(std::size_t bytes) {
  ++kept[class_of(bytes)];
}

namespace {

std::size_t bytes_of(std::span<const std::uint32_t> by_class) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < by_class.size(); ++i)
    bytes += by_class[i] * class_bytes(i);
  return bytes;
}

} // namespace

std::size_t buffer_pool::task_demand::kept_bytes() const {
  return bytes_of(kept);
}

std::size_t buffer_pool::task_demand::dropped_bytes() const {
  return bytes_of(dropped);
}

void buffer_pool::reserve(const task_demand& demand) {
  const std::lock_guard lock(core_->guard);
  for (std::size_t i = 0; i < task_demand::classes; ++i) {
    const std::size_t wanted = demand.kept[i] + demand.dropped[i];
    std::size_t have = 0;
    for (auto* at = core_->free[i]; at != nullptr && have < wanted; at = at->next_free)
      ++have;
    const auto fits = [&] {
      return core_->limit_bytes == 0
          || core_->usage.device_bytes + class_bytes(i) <= core_->limit_bytes;
    };
    for (; have < wanted && fits(); ++have) {
      auto* fresh = core_->take_from_device(i);
      fresh->next_free = core_->free[i];
      core_->free[i] = fresh;
    }
  }
}

pool_usage buffer_pool::usage() const {
  const std::lock_guard lock(core_->guard);
  return core_->usage;
}

void buffer_pool::reset_peaks() {
  const std::lock_guard lock(core_->guard);
  core_->usage.peak_bytes = core_->usage.live_bytes;
  core_->usage.peak_total_bytes = core_->usage.live_total_bytes;
}

void buffer_pool::poison_released(bool on) {
  core_->poison = on;
}

const std::shared_ptr<device>& buffer_pool::memory() const noexcept {
  return core_->memory;
}

tensor::tensor(const tensor& other) noexcept
  : block_(other.block_),
    offset_bytes_(other.offset_bytes_),
    type_(other.type_),
    shape_(other.shape_) {
  // Relaxed: the new handle is made from one that already keeps the block alive.
  if (block_ != nullptr)
    block_->references.fetch_add(1, std::memory_order_relaxed);
}

tensor& tensor::operator=(tensor other) noexcept {
  std::swap(block_, other.block_);
  std::swap(offset_bytes_, other.offset_bytes_);
  std::swap(type_, other.type_);
  std::swap(shape_, other.shape_);
  return *this;
}

tensor::~tensor() {
  // Acquire and release: what other holders wrote happens before the block's next user.
  if (block_ == nullptr || block_->references.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  {
    const std::lock_guard lock(block_->payer->guard);
    block_->payer->discharge(block_->use, block_->capacity_bytes);
  }
  block_->payer.reset();
  // The home must outlive its own lock: a free block holds no reference to it.
  const auto home = std::move(block_->home);
  home->release(block_);
}

void* tensor::checked_data(dtype expected) const {
  if (block_ == nullptr)
    throw std::logic_error("access to an absent tensor");
  if (expected != type_)
    throw std::logic_error(fmt::format("a {} tensor read as {}", name(type_), name(expected)));
  return static_cast<std::byte*>(block_->memory) + offset_bytes_;
}

std::span<std::byte> tensor::bytes_span() {
  return {static_cast<std::byte*>(checked_data(type_)), bytes()};
}

std::span<const std::byte> tensor::bytes_span() const {
  return {static_cast<const std::byte*>(checked_data(type_)), bytes()};
}

tensor tensor::reshaped(kernels::shape to) const {
  if (to.elements() != elements())
    throw std::invalid_argument(
      fmt::format("cannot reshape {} to {}", to_string(shape_), to_string(to)));
  auto result = *this;
  result.shape_ = to;
  return result;
}

tensor tensor::slice(std::int64_t first, std::int64_t count) const {
  if (shape_.rank() == 0 || first < 0 || count < 0 || first + count > shape_[0])
    throw std::out_of_range(fmt::format("rows [{}, {}) of a tensor of shape {}", first,
                                        first + count, to_string(shape_)));
  std::array<std::int64_t, shape::max_rank> extents{};
  std::copy(shape_.extents().begin(), shape_.extents().end(), extents.begin());
  const auto row_bytes = shape_[0] == 0 ? 0 : bytes() / static_cast<std::size_t>(shape_[0]);
  extents[0] = count;
  auto result = *this;
  result.shape_ = kernels::shape(std::span<const std::int64_t>(extents.data(), shape_.rank()));
  result.offset_bytes_ += static_cast<std::size_t>(first) * row_bytes;
  return result;
}

device* tensor::where() const noexcept {
  return block_ == nullptr ? nullptr : block_->home->memory.get();
}

bool tensor::sole_handle() const noexcept {
  return block_ != nullptr && block_->references.load(std::memory_order_acquire) == 1;
}

bool tensor::unique() const noexcept {
  return sole_handle() && !block_->adopted;
}

void tensor::set_use(buffer_use use) noexcept {
  if (block_ == nullptr || block_->use == use)
    return;
  const std::lock_guard lock(block_->payer->guard);
  block_->payer->discharge(block_->use, block_->capacity_bytes);
  block_->use = use;
  block_->payer->charge(use, block_->capacity_bytes);
}

void tensor::charge_to(buffer_pool& pool, buffer_use use) noexcept {
  if (block_ == nullptr)
    return;
  {
    const std::lock_guard lock(block_->payer->guard);
    block_->payer->discharge(block_->use, block_->capacity_bytes);
  }
  block_->payer = pool.core_;
  block_->use = use;
  const std::lock_guard lock(block_->payer->guard);
  block_->payer->charge(use, block_->capacity_bytes);
}

} // namespace sluice::kernels
