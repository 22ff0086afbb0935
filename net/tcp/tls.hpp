#pragma once

#include <memory>

#include <boost/asio/ssl/context.hpp>

#include "net/tcp.hpp"

namespace sluice::net {

/// TLS 1.3, in which each side must show a certificate of the one authority.
/// Errors: std::runtime_error that names the file.
std::unique_ptr<boost::asio::ssl::context> make_tls_context(const tls_files& files);

} // namespace sluice::net
