#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/buffer_pool.hpp"
#include "net/endpoint.hpp"

namespace sluice::net::test {

using namespace std::chrono_literals;
using kernels::buffer_pool;
using kernels::buffer_use;
using kernels::dtype;
using kernels::make_cpu_device;
using kernels::shape;
using kernels::tensor;
using kernels::tensor_list;

/// How long a test waits for what must come. Only a failing test ever waits so long.
inline constexpr auto patience = 30s;

/// The activation from one rank to another, as most tests here send.
inline transfer activation(std::int32_t from, std::int32_t to, std::int32_t micro_batch = 0,
                           std::uint64_t epoch = 1) {
  return {epoch, payload::activation, from, to, to, micro_batch};
}

/// float32 elements first, first + 1, ...
inline tensor counting(buffer_pool& pool, std::int64_t elements, float first = 0) {
  auto made = pool.allocate(dtype::float32, {elements});
  std::iota(made.span<float>().begin(), made.span<float>().end(), first);
  return made;
}

inline bool same_bytes(const tensor& one, const tensor& other) {
  if (!one || !other)
    return !one && !other;
  return one.type() == other.type() && one.shape() == other.shape()
      && std::ranges::equal(one.bytes_span(), other.bytes_span());
}

/// What an endpoint tells, collected so that a test can wait for it.
class listener {
public:
  endpoint_events events() {
    return {.arrived = [this](const transfer& what) { note(arrived_, what); },
            .failed = [this](const std::string& what) { note(failures_, what); }};
  }

  /// Whether `what` arrives while a test has patience.
  bool waits_for(const transfer& what) {
    return wait([&] { return std::ranges::find(arrived_, what) != arrived_.end(); });
  }
  bool waits_for_count(std::size_t count) {
    return wait([&] { return arrived_.size() >= count; });
  }
  bool waits_for_failure() {
    return wait([&] { return !failures_.empty(); });
  }

  std::vector<transfer> arrived() {
    const std::lock_guard lock(guard_);
    return arrived_;
  }
  std::vector<std::string> failures() {
    const std::lock_guard lock(guard_);
    return failures_;
  }
  bool has(const transfer& what) {
    const auto all = arrived();
    return std::ranges::find(all, what) != all.end();
  }

private:
  template <class Item>
  void note(std::vector<Item>& items, const Item& item) {
    // Told with the lock held: who waits may be done with this object right after.
    const std::lock_guard lock(guard_);
    items.push_back(item);
    changed_.notify_all();
  }
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(guard_);
    return changed_.wait_for(lock, patience, condition);
  }

  std::mutex guard_;
  std::condition_variable changed_;
  std::vector<transfer> arrived_;
  std::vector<std::string> failures_;
};

} // namespace sluice::net::test
