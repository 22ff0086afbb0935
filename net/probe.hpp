#pragma once

#include <chrono>
#include <string>

#include "net/tcp.hpp"
#include "net/tcp/address.hpp"

namespace sluice::net {

/// Whether somebody accepts connections there. Empty, or the reason why not.
/// Thread: any; blocks until the deadline at most.
std::string probe(const address& to, std::chrono::milliseconds deadline);

/// Which of this host's addresses packets to another one leave from; no packet is sent.
/// Errors: std::runtime_error for a host that is unknown or without a route.
std::string local_host_towards(const address& to);

/// Whether an address is one of the loopback: no other host can reach it. A name is resolved.
/// Errors: std::runtime_error for a host that is unknown.
bool is_this_host_only(const address& at);

/// Errors: std::runtime_error for a file that cannot be read or used, by name.
void check_tls_files(const tls_files& files);

} // namespace sluice::net
