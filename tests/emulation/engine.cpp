#include "tests/emulation/engine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace sluice::emulation {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t launch_queue = 1024;
constexpr auto quiet = 200us;
constexpr auto standstill = 2s;

/// Every line says what it is.
void say(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    std::fprintf(stderr, "%s%s\n", mark, text.substr(at, end - at).c_str());
    at = end + 1;
  }
}

void erase_dead(std::vector<std::weak_ptr<operation>>& list) {
  std::erase_if(list, [](const auto& each) { return each.expired(); });
}

} // namespace

engine& engine::get() {
  // Never destroyed: its thread may still run while the program ends.
  static auto* only = new engine;
  return *only;
}

engine::engine() {
  for (int i = 0; i < 16; ++i)
    devices.push_back(std::make_unique<device_state>());
  last_call = last_progress = std::chrono::steady_clock::now();
  say("device memory is guarded by mprotect");
  std::thread([this] { run(); }).detach();
}

void engine::progress_locked() {
  last_progress = std::chrono::steady_clock::now();
  changed.notify_all();
}

void engine::violate_locked(const std::string& what) {
  ++violation_count;
  violation = what;
  say("violation: " + what);
}

void engine::break_device_locked(int device, cudaError_t how) {
  devices[static_cast<std::size_t>(device)]->broken = how;
  progress_locked();
}

std::uint64_t engine::device_bit_of(const void* address) const {
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i]->memory.contains(address))
      return std::uint64_t{1} << i;
  return 0;
}

cudaError_t engine::enqueue(std::unique_lock<std::mutex>& lock, stream_state& on,
                            operation_ptr what) {
  const auto& state = *devices[static_cast<std::size_t>(on.device)];
  if (state.broken != cudaSuccess)
    return state.broken;
  if (on.pending.size() >= launch_queue) {
    std::vector<operation_ptr> targets{on.pending.front()};
    if (!wait_locked(lock, "a launch into a full queue", std::move(targets),
                     [&] { return on.pending.size() < launch_queue; }))
      return cudaErrorLaunchTimeout;
  }
  append_locked(on, std::move(what));
  return cudaSuccess;
}

void engine::append_locked(stream_state& on, operation_ptr what) {
  what->on = &on;
  what->number = next_number++;
  if (what->transfer) {
    auto& transfers = devices[static_cast<std::size_t>(on.device)]->transfers;
    if (transfers.empty() || transfers.back().lock() != what->transfer)
      transfers.push_back(what->transfer);
  }
  on.pending.push_back(std::move(what));
  last_call = std::chrono::steady_clock::now();
  progress_locked();
}

bool engine::wait_locked(std::unique_lock<std::mutex>& lock, const std::string& what,
                         std::vector<operation_ptr> targets, const std::function<bool()>& done) {
  if (std::this_thread::get_id() == thread_)
    return false; // A host function would wait for itself.
  host_wait mine{what, std::move(targets), false};
  waits.push_back(&mine);
  changed.notify_all();
  while (!done() && !mine.failed)
    changed.wait(lock);
  std::erase(waits, &mine);
  last_call = std::chrono::steady_clock::now();
  return !mine.failed || done();
}

bool engine::front_is_ready(const operation& front) const {
  switch (front.kind) {
  case operation::kind::work:
  case operation::kind::host_function:
  case operation::kind::record:
    return true;
  case operation::kind::wait:
    return !front.point || front.point->done;
  case operation::kind::nccl:
    return transfer_is_done(*front.transfer);
  }
  return false;
}

/// The next operation that may run by the schedule, or none. Moves transfers on the way.
operation_ptr engine::choose_locked() {
  std::vector<operation_ptr> targets;
  if (schedule == schedule::lazy) {
    for (const auto* wait : waits)
      targets.insert(targets.end(), wait->targets.begin(), wait->targets.end());
    erase_dead(polled);
    for (const auto& each : polled)
      targets.push_back(each.lock());
    if (std::chrono::steady_clock::now() - last_call > quiet)
      for (const auto& device : devices)
        for (const auto& stream : device->streams)
          for (const auto& each : stream->pending)
            if (each->kind == operation::kind::host_function)
              targets.push_back(each);
  }
  const auto needed = needed_for(targets);
  const auto may_run = [&](const operation& what) {
    return schedule != schedule::lazy || std::ranges::binary_search(needed, &what);
  };
  while (progress_transfers_locked(*this, may_run))
    progress_locked();
  std::vector<operation_ptr> ready;
  for (const auto& device : devices)
    for (const auto& stream : device->streams)
      if (!stream->pending.empty() && front_is_ready(*stream->pending.front())
          && may_run(*stream->pending.front()))
        ready.push_back(stream->pending.front());
  if (ready.empty())
    return nullptr;
  if (schedule == schedule::random)
    return ready[random() % ready.size()];
  return *std::ranges::min_element(ready, {}, [](const auto& each) { return each->number; });
}

void engine::execute(std::unique_lock<std::mutex>& lock, const operation_ptr& what) {
  auto& device = *devices[static_cast<std::size_t>(what->on->device)];
  if (what->kind == operation::kind::record) {
    what->point->done = true;
    what->point->when = std::chrono::steady_clock::now();
  } else if (what->body && (device.broken == cudaSuccess || what->kind != operation::kind::work)) {
    executing = true;
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (what->opens >> i & 1U)
        devices[i]->memory.open();
    lock.unlock();
    what->body();
    lock.lock();
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (what->opens >> i & 1U)
        devices[i]->memory.close();
    executing = false;
  }
  what->body = nullptr;
  what->on->pending.pop_front();
  progress_locked();
}

void engine::look_for_deadlock_locked() {
  const auto now = std::chrono::steady_clock::now();
  auto report = find_cycle(*this);
  if (!report.empty())
    report = "deadlock, a cycle of waits:\n" + report;
  else if (!waits.empty() && now - last_progress > standstill && now - last_call > standstill)
    report = "nothing moves, and no cycle is proven:\n" + describe_standstill(*this);
  if (report.empty())
    return;
  if (report != said)
    say(report);
  said = report;
  if (deadlock.empty()) // what follows may come of the first
    deadlock = report;
  if (reaction == on_deadlock::abort)
    std::abort();
  for (auto* wait : waits)
    wait->failed = true;
  changed.notify_all();
}

void engine::run() {
  std::unique_lock lock(guard);
  thread_ = std::this_thread::get_id();
  for (;;) {
    if (schedule == schedule::random && random() % 4 == 0)
      changed.wait_for(lock, std::chrono::microseconds(random() % 200));
    if (const auto next = choose_locked()) {
      execute(lock, next);
      continue;
    }
    look_for_deadlock_locked();
    changed.wait_for(lock, 1ms);
  }
}

// -- control -----------------------------------------------------------------------------------

namespace {

template <class Change>
void change(Change what) {
  auto& all = engine::get();
  const std::lock_guard lock(all.guard);
  what(all);
}

} // namespace

void set_schedule(schedule which, std::uint64_t seed) {
  change([&](engine& e) {
    e.schedule = which;
    e.random.seed(seed);
  });
}

void set_device_model(device_model which) {
  change([&](engine& e) { e.model = which; });
}

void set_send_model(send_model which) {
  change([&](engine& e) { e.sends = which; });
}

void set_on_deadlock(on_deadlock what) {
  change([&](engine& e) { e.reaction = what; });
}

void set_fused_gelu(bool exists) {
  change([&](engine& e) { e.fused_gelu = exists; });
}

void set_device_count(int count) {
  change([&](engine& e) { e.device_count = count; });
}

std::string first_deadlock() {
  std::string text;
  change([&](engine& e) { text = e.deadlock; });
  return text;
}

long violations() {
  long count = 0;
  change([&](engine& e) { count = e.violation_count; });
  return count;
}

std::string last_violation() {
  std::string text;
  change([&](engine& e) { text = e.violation; });
  return text;
}

long device_allocations() {
  long count = 0;
  change([&](engine& e) { count = e.allocations; });
  return count;
}

long launches_of(const std::string& kernel) {
  long count = 0;
  change([&](engine& e) {
    for (const auto& [name, launches] : e.launches)
      if (name.starts_with(kernel))
        count += launches;
  });
  return count;
}

void reset_findings() {
  change([&](engine& e) {
    e.violation_count = 0;
    e.violation.clear();
    e.deadlock.clear();
    for (auto& device : e.devices)
      device->broken = cudaSuccess;
  });
}

} // namespace sluice::emulation
