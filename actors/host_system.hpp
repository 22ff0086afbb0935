#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "actors/caf_compat.hpp"
#include "net/tcp.hpp"
#include "net/tcp/address.hpp"

namespace sluice::actors {

/// How long one of several tries to reach an actor of another process may take. A connection may be
/// lost before its first message (CAF, looking for silent peers, may take it for one), and a
/// request over it ends by its time-out alone.
inline constexpr std::chrono::milliseconds one_try{1000};

/// How this process meets others.
struct host_options {
  std::optional<net::tls_files> tls = {};
  /// After so long without a sign of life a peer counts as gone.
  std::chrono::milliseconds fault_deadline{5000};
};

/// An actor system that reaches others by CAF's networking, with mutual TLS where there are
/// certificates. Each has an identity of its own, so that a process which has lost its peers starts
/// anew with another one.
/// Thread: any.
class host_system {
public:
  /// Errors: std::runtime_error for files that TLS cannot use.
  explicit host_system(const host_options& options);
  ~host_system();
  host_system(const host_system&) = delete;
  host_system& operator=(const host_system&) = delete;

  caf::actor_system& system();

  /// Lets others connect to an actor; returns the port. Port 0: any free one.
  /// Errors: std::runtime_error with address and reason.
  std::uint16_t publish(const caf::actor& what, const net::address& at);

  /// The actor that is published there. Tries again, since a connection that is being made when CAF
  /// looks for silent peers is taken for one, until it is there, refused, or the time is up.
  /// Errors: std::runtime_error with the reason.
  caf::actor dial(const net::address& to, std::chrono::milliseconds deadline);

private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

} // namespace sluice::actors
