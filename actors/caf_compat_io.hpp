#pragma once

/// The part of caf_compat.hpp for CAF's networking, apart because its headers are large.

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>

#include <caf/io/middleman.hpp>

#ifdef SLUICE_CAF_TLS
#include <caf/openssl/manager.hpp>
#endif

#include "actors/caf_compat.hpp"

namespace sluice::actors::compat {

/// Errors: std::runtime_error where CAF was built without OpenSSL.
inline void load_networking(caf::actor_system_config& into, bool with_tls) {
  into.load<caf::io::middleman>();
  if (!with_tls)
    return;
#ifdef SLUICE_CAF_TLS
  into.load<caf::openssl::manager>();
#else
  throw std::runtime_error("this build's CAF has no OpenSSL module, so there is no TLS");
#endif
}

inline void use_certificates(caf::actor_system_config& into, const std::string& authority,
                             const std::string& certificate, const std::string& key) {
#if CAF_MAJOR_VERSION >= 1
  into.set("caf.openssl.cafile", authority);
  into.set("caf.openssl.certificate", certificate);
  into.set("caf.openssl.key", key);
#else
  into.openssl_cafile = authority;
  into.openssl_certificate = certificate;
  into.openssl_key = key;
#endif
}

/// The actor that manages connections.
inline caf::io::middleman_actor connector(caf::actor_system& system, bool with_tls) {
#ifdef SLUICE_CAF_TLS
  if (with_tls)
    return system.openssl_manager().actor_handle();
#else
  (void)with_tls;
#endif
  return system.middleman().actor_handle();
}

/// Listens, and gives the actor to whoever connects. The port, or why not.
inline caf::expected<std::uint16_t> publish(caf::actor_system& system, const caf::actor& what,
                                            const std::string& host, std::uint16_t port,
                                            bool with_tls) {
  caf::scoped_actor self{system};
  caf::expected<std::uint16_t> result{caf::sec::runtime_error};
  ask(self.ptr(), connector(system, with_tls), caf::infinite, caf::publish_atom_v, port,
      caf::actor_cast<caf::strong_actor_ptr>(what), std::set<std::string>{}, host, true)
    .receive([&](std::uint16_t bound) { result = bound; },
             [&](caf::error& problem) { result = std::move(problem); });
  return result;
}

/// Connects and gets the actor that was published there.
inline caf::expected<caf::actor> connect(caf::scoped_actor& self, caf::actor_system& system,
                                         const std::string& host, std::uint16_t port,
                                         caf::timespan timeout, bool with_tls) {
  caf::expected<caf::actor> result{caf::sec::cannot_connect_to_node};
  ask(self.ptr(), connector(system, with_tls), timeout, caf::connect_atom_v, host, port)
    .receive(
      [&](const caf::node_id&, const caf::strong_actor_ptr& found, const std::set<std::string>&) {
        if (found)
          result = caf::actor_cast<caf::actor>(found);
      },
      [&](caf::error& problem) { result = std::move(problem); });
  return result;
}

} // namespace sluice::actors::compat
