#pragma once

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include "net/handshake.hpp"
#include "net/tcp/address.hpp"

namespace sluice::net::test {

/// A piece of wire with a speed for each edge: passes connections on to `target`.
class relay {
public:
  using tcp = boost::asio::ip::tcp;

  /// bytes_per_ms: how fast an edge is just now, in the direction of its data; 0 for "as fast as it
  /// goes". Called on the relay's thread.
  relay(const std::string& target, std::function<std::size_t(const edge&)> bytes_per_ms)
    : target_(parse_address(target)),
      speed_(std::move(bytes_per_ms)) {
    accept();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~relay() {
    io_.stop();
    thread_.join();
  }

  std::string address() const {
    return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }

private:
  struct link : std::enable_shared_from_this<link> {
    link(boost::asio::io_context& io, tcp::socket accepted)
      : near(std::move(accepted)),
        far(io),
        forth{near, far, timer_of(io)},
        back{far, near, timer_of(io)} {}

    struct direction {
      tcp::socket& from;
      tcp::socket& to;
      boost::asio::steady_timer timer;
      std::function<std::size_t()> bytes_per_ms = [] { return std::size_t{0}; };
      std::size_t speed = 0; ///< of the piece under way
      std::array<std::byte, 1 << 16> buffer{};
    };

    static boost::asio::steady_timer timer_of(boost::asio::io_context& io) {
      return boost::asio::steady_timer(io);
    }

    void pump(direction& way) {
      way.speed = way.bytes_per_ms();
      const auto piece = way.speed == 0 ? way.buffer.size() : way.speed;
      way.from.async_read_some(
        boost::asio::buffer(way.buffer.data(), piece),
        [this, &way, self = shared_from_this()](const auto& problem, std::size_t bytes) {
          if (problem) {
            boost::system::error_code ignored;
            way.to.shutdown(tcp::socket::shutdown_send, ignored);
            return;
          }
          boost::asio::async_write(way.to, boost::asio::buffer(way.buffer.data(), bytes),
                                   [this, &way, self](const auto& failed, std::size_t) {
                                     if (!failed)
                                       pause(way);
                                   });
        });
    }
    void pause(direction& way) {
      if (way.speed == 0) {
        pump(way);
        return;
      }
      way.timer.expires_after(std::chrono::milliseconds{1});
      way.timer.async_wait([this, &way, self = shared_from_this()](const auto&) { pump(way); });
    }

    tcp::socket near;
    tcp::socket far;
    direction forth;
    direction back;
  };

  void accept() {
    acceptor_.async_accept([this](const auto& problem, tcp::socket accepted) {
      if (problem)
        return;
      connect(std::make_shared<link>(io_, std::move(accepted)));
      accept();
    });
  }

  // The greeting says which edge it is.
  void connect(const std::shared_ptr<link>& of) {
    hello_decoder decoder;
    for (auto state = progress::more; state == progress::more;) {
      const auto to = decoder.wanted();
      boost::asio::read(of->near, boost::asio::buffer(to.data(), to.size()));
      state = decoder.advance(to.size());
    }
    const auto greeting = encode(decoder.result());
    of->far.connect({boost::asio::ip::make_address(target_.host), target_.port});
    boost::asio::write(of->far, boost::asio::buffer(greeting.data(), greeting.size()));
    of->forth.bytes_per_ms = [this, which = decoder.result().what] { return speed_(which); };
    of->pump(of->forth);
    of->pump(of->back);
  }

  sluice::net::address target_;
  std::function<std::size_t(const edge&)> speed_;
  boost::asio::io_context io_;
  tcp::acceptor acceptor_{io_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)};
  std::thread thread_;
};

} // namespace sluice::net::test
