#pragma once

#include <map>
#include <mutex>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "net/inbox.hpp"
#include "net/tcp/channel.hpp"

namespace sluice::net {

/// A rank of this process: what its owner calls, and what has arrived for it.
///
/// Thread: the owner's for the endpoint's functions. Arrivals come from the network's thread and,
/// for ranks of the same process, from their owners' threads.
class hosted_rank final : public endpoint {
public:
  hosted_rank(boost::asio::io_context& io, const tcp_options& options)
    : io_(io),
      pool_(options.memory, options.limit_bytes),
      outgoing_(options.memory) {}

  // Before anything is sent.
  void add_neighbour(std::int32_t rank, hosted_rank& end) { neighbours_.emplace(rank, &end); }
  void add_sender(send_channel& to) { senders_.emplace(to.edge(), &to); }
  void add_receiver(receive_channel& from) { receivers_.emplace(from.edge(), &from); }

  void listen(endpoint_events events) override;
  void send(const transfer& what, kernels::tensor_list tensors) override;
  kernels::tensor_list take(const transfer& what, kernels::buffer_pool& pool) override;
  void forget(std::uint64_t epoch) override;

  /// Of another rank, in this process or not.
  void deliver(const transfer& what, kernels::tensor_list tensors);
  void fail(const std::string& what);

  /// What comes from other processes lies in its buffers. Allocates on the network's thread only,
  /// which is why it is not the owner's own pool; take() charges that one.
  kernels::buffer_pool& pool() noexcept { return pool_; }

private:
  void grant(const transfer& freed);

  boost::asio::io_context& io_;
  kernels::buffer_pool pool_;
  kernels::buffer_pool outgoing_; ///< the owner's thread: what sockets cannot read is copied there
  inbox inbox_;
  std::map<std::int32_t, hosted_rank*> neighbours_; ///< itself too
  std::map<edge, send_channel*> senders_;
  std::map<edge, receive_channel*> receivers_;

  // Peers may be faster than the owner, who has not listened yet.
  std::mutex guard_;
  bool listening_ = false;
  std::vector<transfer> early_;
  std::vector<std::string> early_failures_;
  endpoint_events events_; ///< unchanged once listening_ is true
};

} // namespace sluice::net
