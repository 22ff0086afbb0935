#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulation/control.hpp"
#include "tests/emulation/memory.hpp"

namespace sluice::emulation {

struct stream_state;
struct nccl_operation;

/// A point in a stream that cudaEventRecord() marked.
struct event_point {
  bool done = false;
  std::chrono::steady_clock::time_point when;
  std::weak_ptr<struct operation> record;
};

/// One entry of a stream.
struct operation {
  enum class kind : std::uint8_t { work, host_function, record, wait, nccl };

  operation::kind kind = kind::work;
  std::string label;
  std::function<void()> body;
  std::uint64_t opens = 0; ///< devices whose memory the body may touch, as bits
  std::shared_ptr<event_point> point;
  std::shared_ptr<nccl_operation> transfer;
  stream_state* on = nullptr;
  std::uint64_t number = 0; ///< over all streams, in the order of enqueueing
  bool arrived = false;     ///< of a transfer: all before it in its stream are done
};
using operation_ptr = std::shared_ptr<operation>;

struct stream_state {
  int device = 0;
  int id = 0;
  std::deque<operation_ptr> pending;
};

struct device_state {
  device_memory memory;
  std::vector<std::unique_ptr<stream_state>> streams;
  std::uint64_t peers = 0;
  cudaError_t broken = cudaSuccess;
  std::deque<std::weak_ptr<nccl_operation>> transfers; ///< in host issue order
};

/// A host thread in a call that waits, with what it waits for.
struct host_wait {
  std::string what;
  std::vector<operation_ptr> targets;
  bool failed = false;
};

/// The devices, and one thread that runs what is enqueued, one operation at a time.
/// Everything is under `guard`; functions named _locked want it held.
struct engine {
  static engine& get();

  std::mutex guard;
  std::condition_variable changed;
  std::vector<std::unique_ptr<device_state>> devices;
  int device_count = 4;
  int next_stream = 1;
  std::uint64_t next_number = 1;
  emulation::schedule schedule = schedule::eager;
  emulation::device_model model = device_model::one_resident;
  emulation::send_model sends = send_model::rendezvous;
  emulation::on_deadlock reaction = on_deadlock::abort;
  std::mt19937_64 random{1};
  std::vector<host_wait*> waits;
  std::vector<std::weak_ptr<operation>> polled;
  std::chrono::steady_clock::time_point last_call;     ///< of a host thread
  std::chrono::steady_clock::time_point last_progress; ///< of anything
  bool executing = false;
  bool fused_gelu = true;
  std::string deadlock; ///< the first since reset_findings()
  std::string said;     ///< the last that was reported
  std::string violation;
  long violation_count = 0;
  long allocations = 0;
  std::map<std::string, long> launches; ///< by kernel
  std::map<std::uintptr_t, std::size_t> pinned;

  /// Appends to a stream; waits while the launch queue of 1024 entries is full.
  cudaError_t enqueue(std::unique_lock<std::mutex>& lock, stream_state& on, operation_ptr what);

  void append_locked(stream_state& on, operation_ptr what);

  /// Waits until done(); false after a deadlock.
  bool wait_locked(std::unique_lock<std::mutex>& lock, const std::string& what,
                   std::vector<operation_ptr> targets, const std::function<bool()>& done);

  void progress_locked();
  void violate_locked(const std::string& what);
  void break_device_locked(int device, cudaError_t how);

  /// 0 for memory that is no device's.
  std::uint64_t device_bit_of(const void* address) const;

private:
  engine();
  void run();
  operation_ptr choose_locked();
  void execute(std::unique_lock<std::mutex>& lock, const operation_ptr& what);
  bool front_is_ready(const operation& front) const;
  void look_for_deadlock_locked();

  std::thread::id thread_;
};

/// The operations that must end before `what` can, as far as they are known (graph.cpp); and what
/// it waits for that nobody has enqueued yet, as text.
std::vector<operation*> blockers_of(const operation& what, std::string& unknown);
/// All that must run for the targets.
std::vector<const operation*> needed_for(const std::vector<operation_ptr>& targets);
/// A cycle of waits among the pending operations, as text, or nothing.
std::string find_cycle(const engine& of);
/// Where everything stands.
std::string describe_standstill(const engine& of);
std::string describe(const operation& what);

/// Checks a kernel launch and enqueues it. pointers: its arguments that are pointers; they must lie
/// in memory that the device may touch. Thread: any.
cudaError_t enqueue_kernel(launch what, std::function<void()> lane,
                           const std::vector<const void*>& pointers, cudaStream_t on);

/// The stream behind a handle; null for the default stream, which is not emulated.
stream_state* stream_of(cudaStream_t handle);
int current_device();

/// NCCL's part (nccl_model.cpp). Tries to move transfers forward; true if anything changed.
bool progress_transfers_locked(engine& of, const std::function<bool(const operation&)>& may_run);
bool transfer_is_done(const nccl_operation& what);
void transfer_blockers(const operation& what, std::vector<operation*>& blockers,
                       std::string& unknown);

constexpr const char* mark = "[emulated CUDA, no GPU] ";

} // namespace sluice::emulation
