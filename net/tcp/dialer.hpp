#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "net/handshake.hpp"
#include "net/tcp/address.hpp"
#include "net/tcp/wire.hpp"

namespace sluice::net {

/// Connects one edge to its receiver's process and greets it: again and again while nobody is
/// there or the one there is still at another run, until it is welcome, refused for good or told
/// to stop.
/// Thread: the network's. It must outlive its handlers.
class dialer {
public:
  /// A welcome, or else the reason why there will be none. Called once, never after stop().
  using done = std::function<void(std::unique_ptr<wire>, std::uint32_t slots, std::string problem)>;

  dialer(boost::asio::io_context& on, const tcp_options& options, boost::asio::ssl::context* tls,
         address to, hello greeting, done done);

  void start();
  void stop();

  const net::edge& edge() const noexcept { return greeting_.what; }

  /// Why the last try failed; empty before the first.
  const std::string& last_problem() const noexcept { return last_problem_; }

private:
  using endpoint = boost::asio::generic::stream_protocol::endpoint;

  void resolve();
  void connect(std::vector<endpoint> candidates);
  void on_connected();
  void on_secure();
  void write_greeting();
  void read_answer();
  void on_answer();
  void on_broken(const error_code& problem);
  void retry(std::string problem);
  void finish(std::string problem, std::uint32_t slots = 0);

  /// A handler that does nothing once this try is over.
  template <class Function>
  auto in_this_try(Function function);

  const tcp_options& options_;
  boost::asio::ssl::context* tls_;
  address to_;
  hello greeting_;
  done done_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer pause_;
  std::chrono::milliseconds next_pause_{10};
  stream_socket socket_;
  std::unique_ptr<wire> wire_;
  std::vector<std::unique_ptr<wire>> retired_; ///< closed; their handlers may still run
  std::vector<std::byte> to_write_;
  std::unique_ptr<answer_decoder> decoder_;
  std::string last_problem_;
  std::uint64_t try_ = 0; ///< counts tries, so that a handler of an earlier one is known
  bool stopped_ = false;
};

} // namespace sluice::net
