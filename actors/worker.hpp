#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/caf_compat.hpp"
#include "actors/worker_messages.hpp"
#include "net/gpu_channels.hpp"
#include "net/tcp.hpp"

namespace sluice::actors {

/// What a worker offers.
struct worker_config {
  std::string name;        ///< as others see it: "host, process 4711"
  std::int32_t stages = 1; ///< that it hosts at once
  /// Of its stages, one after another and again from the first. Empty: the processor.
  std::vector<std::string> devices = {};
  std::function<std::shared_ptr<kernels::device>(const std::string&)> open_device = {};
  model_makers models = {};    ///< beside gpt and mlp, by the kind that a recipe names
  net::gpu_channels gpus = {}; ///< between those of several processes; empty: sockets only
  /// Of the tensor sockets; the listening port must be 0: each lease has a port of its own.
  net::tcp_options tensors = {};
  std::function<void(const std::string&)> log =
    {};                        ///< a line for each lease; on the actor's thread
  bool detached_stages = true; ///< off only for tests that step them
};

/// A host's daemon: lets one trainer at a time have its devices. See worker_messages.hpp for what
/// it is asked.
///
/// A lease ends when its owner says so or is gone; then the stages end, the sockets are closed, and
/// the worker is free for the next one. What a peer names are sizes and numbers: the worker opens
/// no file and runs no code for it.
/// Thread: its own (detached), since closing sockets takes up to a second.
class worker_state {
public:
  static constexpr const char* name = "sluice.worker";

  worker_state(caf::event_based_actor* self, std::shared_ptr<const worker_config> config);
  ~worker_state();

  caf::behavior make_behavior();

private:
  struct lease;

  caf::result<worker_offer> on_hello(const worker_hello& message);
  caf::result<lease_grant> on_request(const lease_request& message);
  caf::result<run_started> on_start(const start_run& message);
  caf::result<lease_ended> on_end(const end_lease& message);
  void on_connections(const connections_made& message);

  std::unique_ptr<lease> make_lease(const lease_request& message) const;
  const net::gpu_channels& nccl() const;
  std::shared_ptr<net::network> channels() const;
  std::shared_ptr<kernels::device> device_of(std::int32_t rank) const;
  void start_stages();
  void end(const std::string& why);
  void stage_ended();
  void finish_end();
  bool holds(const std::vector<std::uint8_t>& token) const;
  void log(const std::string& line) const;

  caf::event_based_actor* self_;
  std::shared_ptr<const worker_config> config_;
  compat::watcher watcher_;
  std::unique_ptr<lease> lease_;
};

/// Starts a worker. detached: on a thread of its own; off only for tests that step it.
caf::actor spawn_worker(caf::actor_system& system, std::shared_ptr<const worker_config> config,
                        bool detached = true);

/// A worker that ends with its scope: an actor system waits for those that are left.
class scoped_worker {
public:
  scoped_worker(caf::actor_system& system, std::shared_ptr<const worker_config> config);
  ~scoped_worker();
  scoped_worker(const scoped_worker&) = delete;
  scoped_worker& operator=(const scoped_worker&) = delete;

  const caf::actor& actor() const noexcept { return actor_; }

private:
  caf::actor_system& system_;
  caf::actor actor_;
};

/// "host, process 4711": how this process calls itself to others.
std::string name_of_this_process();

} // namespace sluice::actors
