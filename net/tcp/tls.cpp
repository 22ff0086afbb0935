#include "net/tcp/tls.hpp"

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "net/tcp/wire.hpp"

namespace sluice::net {

namespace ssl = boost::asio::ssl;

std::unique_ptr<ssl::context> make_tls_context(const tls_files& files) {
  auto context = std::make_unique<ssl::context>(ssl::context::tls);
  const auto load = [](const char* what, const std::string& file, auto loading) {
    if (!std::ifstream(file)) // OpenSSL would not say so.
      throw std::runtime_error(fmt::format("cannot read the {} {}: {}", what, file,
                                           std::generic_category().message(errno)));
    error_code problem;
    loading(problem);
    if (problem)
      throw std::runtime_error(
        fmt::format("cannot use the {} {}: {}", what, file, reason_of(problem)));
  };
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_3_VERSION);
  // Nobody resumes: it would only keep memory for strangers.
  SSL_CTX_set_session_cache_mode(context->native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context->native_handle(), 0);
  context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  load("authority", files.authority,
       [&](auto& problem) { context->load_verify_file(files.authority, problem); });
  load("certificate", files.certificate,
       [&](auto& problem) { context->use_certificate_chain_file(files.certificate, problem); });
  load("key", files.key, [&](auto& problem) {
    context->use_private_key_file(files.key, ssl::context::pem, problem);
  });
  return context;
}

} // namespace sluice::net
