#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "net/endpoint.hpp"

namespace sluice::net {

/// How a loopback network treats its transfers. Each function is called once per transfer, on the
/// sender's thread; leave it empty for "no delay".
struct loopback_options {
  /// How many transfers of one edge between two ranks may lie at the receiver, arrived and not
  /// taken. The next one stays with its sender until take() frees a slot. At least 1. What a rank
  /// sends to itself needs none, as in the checker's graph and between processes.
  std::int32_t slots = 1;
  std::function<std::chrono::microseconds(const transfer&)> latency = {};
  /// How long the channel holds the sender's buffers after the receiver has its copy.
  std::function<std::chrono::microseconds(const transfer&)> completion = {};
  /// Fills the sent buffers with NaN when the channel is done with them.
  bool poison = false;
};

/// The transport for tests: rendezvous. A send ends only when its receive runs, transfers are
/// copied, edges of different ranks overtake each other by their delays, and buffers stay with
/// the channel as long as it says.
/// ranks: all of them, the trainer's included.
std::unique_ptr<network> make_loopback_network(std::int32_t ranks, loopback_options options);

} // namespace sluice::net
