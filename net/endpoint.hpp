#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/buffer_pool.hpp"
#include "kernels/tensor.hpp"
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

  /// Hands the tensors over; returns at once. They belong to the channel until it has passed them
  /// on, so the caller keeps no handle that it would write through.
  virtual void send(const transfer& what, kernels::tensor_list tensors) = 0;

  /// The tensors of a transfer that has arrived, charged to `pool`. Frees its receive slot.
  /// Errors: std::logic_error for one that has not arrived.
  virtual kernels::tensor_list take(const transfer& what, kernels::buffer_pool& pool) = 0;

  /// Drops all transfers of `epoch` and earlier, arrived or yet to come.
  virtual void forget(std::uint64_t epoch) = 0;
};

/// The ends of one set of ranks.
class network {
public:
  virtual ~network() = default;

  virtual endpoint& at(std::int32_t rank) = 0;
};

} // namespace sluice::net
