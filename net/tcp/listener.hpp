#pragma once

#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "net/handshake.hpp"
#include "net/tcp/address.hpp"
#include "net/tcp/wire.hpp"

namespace sluice::net {

/// Accepts connections, hears their greetings, and tells strangers from members.
///
/// A stranger gets a reason, a deadline, and a bounded piece of memory; with TLS it gets nothing
/// before it has shown a certificate.
/// Thread: the network's, once start() was called. It must outlive its handlers.
class listener {
public:
  /// Judges a greeting. For a welcome the judge takes the connection, and writes the answer.
  using judge = std::function<answer(const hello& greeting, std::unique_ptr<wire>& from)>;

  /// Binds. Errors: std::runtime_error.
  listener(boost::asio::io_context& on, const tcp_options& options, boost::asio::ssl::context* tls,
           const address& at);
  ~listener();

  /// With the port that was found free.
  const address& bound() const noexcept { return bound_; }

  void start(judge judge);
  void stop();

private:
  using acceptor = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;
  class guest;

  void accept();
  void on_accepted(const error_code& problem, stream_socket socket);
  void drop(const guest& which);
  void log_once(const std::string& who, const std::string& why);

  boost::asio::io_context& io_;
  const tcp_options& options_;
  boost::asio::ssl::context* tls_;
  address bound_;
  acceptor acceptor_;
  boost::asio::generic::stream_protocol::endpoint from_; ///< of the connection being accepted
  boost::asio::steady_timer pause_;
  judge judge_;
  std::list<std::shared_ptr<guest>> guests_; ///< the longest waiting first
  std::set<std::string> logged_;
  bool stopped_ = false;
};

} // namespace sluice::net
