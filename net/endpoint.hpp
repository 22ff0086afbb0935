#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "kernels/buffer_pool.hpp"
#include "kernels/stream.hpp"
#include "kernels/tensor.hpp"
#include "net/offer.hpp"
#include "net/transfer.hpp"

namespace sluice::net {

/// What an endpoint tells its owner. Called on any thread, also from within send() and take(), so
/// a callback only passes the news on.
struct endpoint_events {
  std::function<void(const transfer&)> arrived = {};   ///< take() will give its tensors
  std::function<void(const std::string&)> failed = {}; ///< the channel to a peer broke; says which
};

/// One rank's end of all its channels: the only way by which tensors pass between ranks.
///
/// An *edge* is a payload kind from one rank into one chunk; edges do not wait for each other.
/// The receiver tells transfers apart by their names, never by the order in which they arrive.
/// Thread: one owner calls send() and take(); the events come from any thread.
class endpoint {
public:
  virtual ~endpoint() = default;

  /// Starts to deliver events. Call it once, before anything is sent to this rank.
  virtual void listen(endpoint_events events) = 0;

  /// Hands the tensors over; returns at once. Their device is done with computing them. They belong
  /// to the channel until it has passed them on, so the caller keeps no handle that it would write
  /// through.
  virtual void send(const transfer& what, kernels::tensor_list tensors) = 0;

  /// The tensors of a transfer that has arrived, charged to `pool`. Frees its receive slot.
  /// Errors: std::logic_error for one that has not arrived.
  virtual kernels::tensor_list take(const transfer& what, kernels::buffer_pool& pool) = 0;

  /// Drops all transfers of `epoch` and earlier, arrived or yet to come.
  virtual void forget(std::uint64_t epoch) = 0;

  /// Before the first send, with the stream that the owner computes on. May wait for the other
  /// ranks to do the same. Errors: what keeps a channel from being made.
  virtual void open(kernels::stream&) {}

  /// On a network that needs an order: transfers, some of them to or from this rank, that are next
  /// in it, and go together. Every rank gets those that concern it in one and the same order.
  virtual void commit(std::span<const offer>) {}

  /// The owner's last call: gives up what is still under way.
  virtual void close() noexcept {}
};

/// The ends of one set of ranks.
class network {
public:
  virtual ~network() = default;

  virtual endpoint& at(std::int32_t rank) = 0;

  /// Whether transfers run only when somebody has put them in one order for all ranks.
  virtual bool needs_order() const { return false; }

  /// Who does so: is told what is ready, on the sender's thread, and has commit() called. Before
  /// the first send.
  virtual void order_by(std::function<void(const offer&)>) {}
};

} // namespace sluice::net
