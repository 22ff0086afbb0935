#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/caf_compat.hpp"
#include "actors/trainer_messages.hpp"
#include "actors/worker_messages.hpp"
#include "net/tcp.hpp"

namespace sluice::actors {

/// A worker, as the trainer's process knows it.
struct known_worker {
  std::string address; ///< as the user wrote it
  caf::actor actor;
  worker_offer offer;
  std::int64_t clock_offset_ns = 0; ///< its clock minus this process's
};

/// What a run asks of workers. Stays within the process.
struct hire_order {
  stage_recipe recipe;
  std::vector<shared_parameter> shared;
  std::vector<const known_worker*> placement;       ///< by rank; null: in this process
  std::shared_ptr<net::tcp_network> network;        ///< of this process
  std::map<std::string, std::string> own_addresses; ///< of the network, as each worker sees it
  std::chrono::milliseconds deadline{};             ///< for each answer and for all connections
  std::chrono::milliseconds silence{};
  bool checksum = false;
  bool nccl = false; ///< for tensors from GPU to GPU
};

/// To the recruiter. Answer: hired, or an error that says which worker failed and how.
struct hire {
  std::shared_ptr<const hire_order> order;
};

struct hired {
  std::vector<caf::actor> stages; ///< by rank; none for those of this process
};

/// To the recruiter: let all workers go. Answer: unit, once they have, or their time is up.
struct dismiss {};

/// Leases workers for one run and owns the leases: when it ends, they do.
/// Every request has a time-out, and every worker is watched from the request on.
/// Thread: pooled, never blocks.
class recruiter_state {
public:
  static constexpr const char* name = "sluice.recruiter";

  explicit recruiter_state(caf::event_based_actor* self);

  caf::behavior make_behavior();

private:
  struct contract {
    const known_worker* worker;
    std::vector<std::int32_t> ranks;
    std::uint16_t tensor_port = 0;
    std::vector<std::int32_t> gpu_ranks = {}; ///< of these, those on GPUs
    bool gone = false;                        ///< it has ended, or the connection to it
  };

  caf::result<hired> on_hire(const hire& message);
  caf::result<caf::unit_t> on_dismiss();

  void order_gpus();
  void request_leases();
  void start_run_everywhere();
  std::map<std::int32_t, std::string> peers_of(const contract& of) const;
  void everybody_started();
  void started(const contract& by, const run_started& answer);
  void worker_gone(std::size_t which, const caf::error& reason);
  void one_less();
  void one_released();
  void fail(const std::string& why);

  caf::event_based_actor* self_;
  compat::watcher watcher_;
  std::shared_ptr<const hire_order> order_;
  net::run_token token_{};
  std::vector<std::uint8_t> token_bytes_;
  std::vector<contract> contracts_;
  gpu_order gpus_;
  std::vector<caf::actor> stages_;
  caf::response_promise hiring_;
  caf::response_promise dismissing_;
  std::size_t unanswered_ = 0;
  std::size_t unreleased_ = 0;
  std::function<void()> all_answered_;
};

/// "127.0.0.1:4711": the host that a worker was reached by, with another port.
std::string beside(const std::string& address, std::uint16_t port);

} // namespace sluice::actors

// clang-format off
CAF_BEGIN_TYPE_ID_BLOCK(sluice_crew, caf::id_block::sluice_local::end)
  CAF_ADD_TYPE_ID(sluice_crew, (sluice::actors::hire))
  CAF_ADD_TYPE_ID(sluice_crew, (sluice::actors::hired))
  CAF_ADD_TYPE_ID(sluice_crew, (sluice::actors::dismiss))
CAF_END_TYPE_ID_BLOCK(sluice_crew)
// clang-format on

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::hire)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::hired)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::actors::dismiss)
