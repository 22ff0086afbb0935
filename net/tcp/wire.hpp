#pragma once

#include <memory>
#include <optional>
#include <span>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>

#include "net/tcp.hpp"

namespace sluice::net {

using boost::system::error_code;
using stream_socket = boost::asio::generic::stream_protocol::socket;

/// A connected socket of either family, with or without TLS.
///
/// One read and one write may be under way at a time. close() makes both fail; the object must
/// outlive their handlers.
/// Thread: the network's.
class wire {
public:
  using tls_stream = boost::asio::ssl::stream<stream_socket&>;

  /// tls: null for none.
  wire(stream_socket connected, boost::asio::ssl::context* tls) : socket_(std::move(connected)) {
    if (tls != nullptr)
      tls_.emplace(socket_, *tls);
  }

  wire(const wire&) = delete;
  wire& operator=(const wire&) = delete;

  /// Agrees on keys and checks the peer's certificate; without TLS there is nothing to do.
  template <class Handler>
  void async_handshake(boost::asio::ssl::stream_base::handshake_type side, Handler handler) {
    if (tls_)
      tls_->async_handshake(side, std::move(handler));
    else
      boost::asio::post(socket_.get_executor(),
                        [handler = std::move(handler)]() mutable { handler(error_code{}); });
  }

  template <class Handler>
  void async_read_some(std::span<std::byte> to, Handler handler) {
    const boost::asio::mutable_buffer buffer(to.data(), to.size());
    if (tls_)
      tls_->async_read_some(buffer, std::move(handler));
    else
      socket_.async_read_some(buffer, std::move(handler));
  }

  /// buffers: a sequence of asio's.
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler handler) {
    if (tls_)
      tls_->async_write_some(buffers, std::move(handler));
    else
      socket_.async_write_some(buffers, std::move(handler));
  }

  /// Tells the peer that nothing more comes; it can still send.
  void end_output() noexcept {
    error_code ignored;
    socket_.shutdown(stream_socket::shutdown_send, ignored);
  }

  void close() noexcept {
    error_code ignored;
    socket_.close(ignored);
  }

private:
  stream_socket socket_;
  std::optional<tls_stream> tls_;
};

/// Keeps a socket from programs that this process starts: in their hands a connection would outlive
/// its owner, and nobody would notice the owner's death.
void close_on_exec(int socket);

/// Sets what the options say of sockets, and that small frames go out at once. socket: one that is
/// not connected yet, or else the listening one, from which accepted ones inherit; a buffer that
/// shrinks under a connection stalls it.
void configure(int socket, const tcp_options& options);

/// What to say of an error of a socket.
std::string reason_of(const error_code& problem);

} // namespace sluice::net
