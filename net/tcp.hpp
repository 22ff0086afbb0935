#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "net/edge.hpp"
#include "net/endpoint.hpp"
#include "net/frame.hpp"
#include "net/handshake.hpp"

namespace sluice::net {

/// PEM files. Whoever has a certificate of the authority is a member; names are not compared.
struct tls_files {
  std::string authority;
  std::string certificate; ///< and those between it and the authority
  std::string key;
};

/// How one process takes part.
struct tcp_options {
  /// "host:port", "[ip6]:port" or "unix:/path" (see net/tcp/address.hpp); port 0: any free one.
  std::string listen = "127.0.0.1:0";
  std::optional<tls_files> tls = {};
  /// Without TLS, only this host can connect unless this is set: for networks that are closed.
  bool trust_the_network = false;
  /// Whether sent tensors carry a checksum. Headers always do, and received ones are checked.
  bool checksum = false;
  frame_limits limits = {};
  /// How long a stranger may take for its greeting, and the most of them at a time; the longest
  /// waiting one makes room for another.
  std::chrono::milliseconds greeting_deadline{5000};
  std::size_t strangers = 256;
  /// Ends a connection whose peer acknowledges nothing for so long (a cut cable, a host that is
  /// gone); 0: the kernel's default of many minutes. A stopped process still acknowledges.
  std::chrono::milliseconds silence{0};
  std::size_t socket_buffer_bytes = 0; ///< 0: as the kernel sees fit
  /// Where tensors lie from arrival until they are released. limit_bytes: for each rank; 0: none.
  std::shared_ptr<kernels::device> memory = kernels::make_cpu_device();
  std::size_t limit_bytes = 0;
  /// Gets a line for each kind of stranger that is refused. Called on the network's thread.
  std::function<void(const std::string&)> log = {};
};

/// An edge of a run.
struct tcp_edge {
  net::edge edge;
  /// How many transfers may lie at the receiver, arrived and not taken. The next one stays with
  /// its sender. What the receiver takes only all together needs as many: twins and states do.
  std::uint32_t slots = 1;
  /// What passes, in any words, such as "F32[4, 128]"; empty for "anything". Where both ends name
  /// one and they differ, both fail before the first transfer, with both texts.
  std::string layout = {};
};

/// What the processes of one run agree on, and who of them this one is.
struct tcp_run {
  run_token token = {};
  std::vector<std::int32_t> hosted = {};          ///< the ranks in this process
  std::map<std::int32_t, std::string> peers = {}; ///< where each other rank's process listens
  /// Of the run; those between two other processes may be missing.
  std::vector<tcp_edge> edges = {};
  /// For all connections to be made.
  std::chrono::milliseconds deadline{30000};
};

/// Channels between the ranks of several processes, for one run: TCP or Unix-domain sockets, with
/// or without TLS. Ranks of one process hand their buffers over as in a local network.
///
/// Every edge between two processes has a connection of its own, on which transfers go one way and
/// grants of receive slots the other. So no edge can hold up another, and what lies at a receiver
/// is bounded by its slots; what waits for a slot belongs to its sender. The sender's process
/// connects; all connections are begun at start() in the canonical order of edges, and none waits
/// for another, so the order in which processes start does not matter.
///
/// A network lives until its first fault: a lost connection is not made again. Then the owner makes
/// a new one, with a new token, whose connections the old one refuses.
///
/// Thread: any; one owner for each rank, as for every endpoint. One thread of its own moves bytes
/// and calls the events; do not destroy the network there.
/// Errors: a broken connection or a violation of the protocol calls `failed` of the hosted rank
/// whose edge it is, once for each other rank, with address, edge and reason.
class tcp_network final : public network {
public:
  /// Binds the address; peers that connect wait until start().
  /// Errors: std::invalid_argument for the options, std::runtime_error for the address.
  explicit tcp_network(tcp_options options = {});

  /// Says farewell: what has a slot is still sent, for a second at most.
  ~tcp_network() override;

  tcp_network(const tcp_network&) = delete;
  tcp_network& operator=(const tcp_network&) = delete;

  /// Where others reach this process, with the port that was found free.
  std::string address() const;

  /// Begins to make all connections; returns at once. `done` is called once, on the network's
  /// thread: with an empty text when all are made, else with what failed and why. After that text
  /// the network is dead; `failed` is not called for it.
  /// Errors: std::invalid_argument for a run that names no peer for a rank, or a bad address.
  void start(tcp_run run, std::function<void(const std::string& problem)> done);

  /// start(), and waits until it is done. Errors: std::runtime_error with what failed.
  void connect(tcp_run run);

  /// A hosted rank's end; there from start() on. Errors: std::out_of_range for another rank.
  endpoint& at(std::int32_t rank) override;

  /// What lies here for a rank, arrived and not taken, or still arriving.
  kernels::pool_usage usage(std::int32_t rank) const;

private:
  class core;
  std::unique_ptr<core> core_;
};

} // namespace sluice::net
