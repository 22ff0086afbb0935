#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "kernels/cuda/device.hpp"
#include "net/edge.hpp"
#include "net/inbox.hpp"
#include "net/nccl.hpp"
#include "net/nccl/communicator.hpp"

namespace sluice::net::nccl {

/// What all ends of one network share.
struct shared_state {
  nccl_options options;
  ncclUniqueId id{};
  std::function<void(const offer&)> offer;

  /// The rank's place among those on GPUs; -1 for others.
  int place_of(std::int32_t rank) const;

  /// Notes on which GPU a rank is. Errors: std::runtime_error where another rank is: NCCL would
  /// only say "invalid usage". Thread: any.
  void claim(int gpu, std::int32_t rank);

private:
  std::mutex guard_;
  std::map<int, std::int32_t> rank_on_; ///< by GPU
};

/// An event, destroyed with it.
class event {
public:
  event();
  ~event();
  event(const event&) = delete;
  event& operator=(const event&) = delete;

  void record(cudaStream_t on);
  void hold_up(cudaStream_t what) const; ///< until what was recorded is done

private:
  cudaEvent_t handle_ = nullptr;
};

/// One rank's end; see net/nccl.hpp.
class nccl_endpoint final : public endpoint {
public:
  nccl_endpoint(std::int32_t rank, std::shared_ptr<shared_state> shared);
  ~nccl_endpoint() override;

  void listen(endpoint_events events) override;
  void open(kernels::stream& on) override;
  void send(const transfer& what, kernels::tensor_list tensors) override;
  void commit(std::span<const offer> together) override;
  kernels::tensor_list take(const transfer& what, kernels::buffer_pool& pool) override;
  void forget(std::uint64_t epoch) override;
  void close() noexcept override;

private:
  /// What one commit moves, kept until the device is done with it.
  struct under_way {
    std::vector<kernels::tensor_list> sent;
    std::vector<std::pair<transfer, kernels::tensor_list>> received;
    event moved;
    std::atomic<bool> done = false;
    nccl_endpoint* of = nullptr;
  };

  /// Where the next transfer of an edge is received: taken from the pool when the one before it
  /// was, so that it need not wait for what the device was given to compute since.
  struct landing {
    kernels::tensor_list tensors;
    event free; ///< what was computed in them before is done
  };

  bool by_nccl(std::int32_t from, std::int32_t to) const;
  void warm_up();
  void post_send(under_way& into, const offer& what, ncclComm_t on);
  void post_receive(under_way& into, const offer& what, ncclComm_t on);
  void prepare(landing& place, const offer& what);
  static void on_moved(void* what);
  void drop_done();

  std::int32_t rank_;
  std::shared_ptr<shared_state> shared_;
  endpoint& others_;
  endpoint_events events_;
  kernels::stream* stream_ = nullptr;
  kernels::cuda::device* device_ = nullptr;
  cudaStream_t moving_ = nullptr;
  communicator communicator_;
  inbox inbox_;
  std::vector<std::pair<transfer, kernels::tensor_list>> offered_;
  std::map<edge, landing> landings_;
  std::deque<std::unique_ptr<under_way>> under_way_;
};

} // namespace sluice::net::nccl
