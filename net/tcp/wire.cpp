#include "net/tcp/wire.hpp"

#include <algorithm>

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/error.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/ssl/error.hpp>
#include <openssl/err.h>

namespace sluice::net {

namespace {

void set(int socket, int level, int option, int value) {
  // A Unix-domain socket knows none of these; nothing is lost when one is refused.
  ::setsockopt(socket, level, option, &value, sizeof value);
}

} // namespace

void close_on_exec(int socket) {
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
}

void configure(int socket, const tcp_options& options) {
  close_on_exec(socket);
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  if (options.socket_buffer_bytes > 0) {
    set(socket, SOL_SOCKET, SO_SNDBUF, static_cast<int>(options.socket_buffer_bytes));
    set(socket, SOL_SOCKET, SO_RCVBUF, static_cast<int>(options.socket_buffer_bytes));
  }
  if (options.silence.count() > 0) {
    // The user time-out covers what was sent; keep-alive covers a connection that is idle.
    const auto seconds = static_cast<int>(std::max<long>(1, options.silence.count() / 3000));
    set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
    set(socket, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
    set(socket, IPPROTO_TCP, TCP_KEEPCNT, 2);
    set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(options.silence.count()));
  }
}

std::string reason_of(const error_code& problem) {
  if (problem == boost::asio::error::eof || problem == boost::asio::ssl::error::stream_truncated)
    return "the peer closed the connection";
  if (problem.category() == boost::asio::error::get_ssl_category()) {
    // The category itself does not know OpenSSL 3's texts.
    const auto* text = ::ERR_reason_error_string(static_cast<unsigned long>(problem.value()));
    return std::string("TLS: ") + (text != nullptr ? text : problem.message());
  }
  return problem.message();
}

} // namespace sluice::net
