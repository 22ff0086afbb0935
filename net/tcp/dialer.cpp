#include "net/tcp/dialer.hpp"

#include <algorithm>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <fmt/format.h>

namespace sluice::net {

namespace asio = boost::asio;
using asio::ip::tcp;

dialer::dialer(asio::io_context& on, const tcp_options& options, asio::ssl::context* tls,
               address to, hello greeting, done done)
  : options_(options),
    tls_(tls),
    to_(std::move(to)),
    greeting_(std::move(greeting)),
    done_(std::move(done)),
    resolver_(on),
    pause_(on),
    socket_(on) {}

template <class Function>
auto dialer::in_this_try(Function function) {
  return [this, at = try_, function = std::move(function)](const error_code& problem,
                                                           auto&&... more) mutable {
    if (!stopped_ && at == try_)
      function(problem, std::forward<decltype(more)>(more)...);
  };
}

void dialer::start() {
  ++try_;
  if (to_.is_unix()) {
    connect({endpoint(asio::local::stream_protocol::endpoint(to_.path))});
    return;
  }
  error_code problem;
  const auto number = asio::ip::make_address(to_.host, problem);
  if (problem)
    resolve();
  else
    connect({endpoint(tcp::endpoint(number, to_.port))});
}

void dialer::resolve() {
  resolver_.async_resolve(
    to_.host, std::to_string(to_.port),
    in_this_try([this](const error_code& problem, tcp::resolver::results_type found) {
      if (problem) {
        retry(problem.message());
        return;
      }
      std::vector<endpoint> candidates;
      for (const auto& each : found)
        candidates.emplace_back(each.endpoint());
      std::ranges::reverse(candidates); // They are tried from the back.
      connect(std::move(candidates));
    }));
}

void dialer::connect(std::vector<endpoint> candidates) {
  error_code problem;
  socket_.close(problem);
  const auto next = candidates.back();
  candidates.pop_back();
  socket_.open(next.protocol(), problem);
  if (problem) {
    retry(problem.message());
    return;
  }
  configure(socket_.native_handle(), options_);
  socket_.async_connect(
    next, in_this_try([this, candidates = std::move(candidates)](const error_code& refused) {
      if (refused && candidates.empty())
        retry(refused.message());
      else if (refused)
        connect(candidates);
      else
        on_connected();
    }));
}

void dialer::on_connected() {
  wire_ = std::make_unique<wire>(std::move(socket_), tls_);
  wire_->async_handshake(asio::ssl::stream_base::client,
                         in_this_try([this](const error_code& problem) {
                           if (problem)
                             on_broken(problem);
                           else
                             on_secure();
                         }));
}

void dialer::on_secure() {
  to_write_ = encode(greeting_);
  decoder_ = std::make_unique<answer_decoder>();
  write_greeting();
}

void dialer::write_greeting() {
  wire_->async_write_some(asio::const_buffer(to_write_.data(), to_write_.size()),
                          in_this_try([this](const error_code& problem, std::size_t bytes) {
                            if (problem) {
                              // A peer that has refused may have closed before this was sent; it
                              // may also have said why.
                              read_answer();
                              return;
                            }
                            to_write_.erase(to_write_.begin(),
                                            to_write_.begin() + static_cast<std::ptrdiff_t>(bytes));
                            if (to_write_.empty())
                              read_answer();
                            else
                              write_greeting();
                          }));
}

void dialer::read_answer() {
  wire_->async_read_some(decoder_->wanted(),
                         in_this_try([this](const error_code& problem, std::size_t bytes) {
                           if (problem) {
                             on_broken(problem);
                             return;
                           }
                           switch (decoder_->advance(bytes)) {
                           case progress::more:
                             read_answer();
                             break;
                           case progress::refused:
                             finish(decoder_->refusal().text);
                             break;
                           case progress::complete:
                             on_answer();
                             break;
                           }
                         }));
}

void dialer::on_answer() {
  const auto reply = decoder_->result();
  if (reply.verdict == verdict::welcome)
    finish({}, reply.slots);
  else if (reply.verdict == verdict::another_run)
    retry("refused: " + reply.text);
  else
    finish("refused: " + reply.text);
}

void dialer::on_broken(const error_code& problem) {
  // A certificate that was refused, by this end or that one, does not get better.
  if (problem.category() == asio::error::get_ssl_category())
    finish(reason_of(problem));
  else if (tls_ == nullptr)
    retry(reason_of(problem) + " before its answer (does it want TLS?)");
  else
    retry(reason_of(problem) + " before its answer");
}

void dialer::retry(std::string problem) {
  last_problem_ = std::move(problem);
  ++try_;
  if (wire_) {
    wire_->close();
    retired_.push_back(std::move(wire_));
  }
  pause_.expires_after(next_pause_);
  next_pause_ = std::min(next_pause_ * 3 / 2, std::chrono::milliseconds{200});
  pause_.async_wait(in_this_try([this](const error_code&) {
    retired_.clear(); // Their handlers have run: the pause was behind them.
    start();
  }));
}

void dialer::finish(std::string problem, std::uint32_t slots) {
  stopped_ = true;
  last_problem_ = problem;
  if (wire_ && !problem.empty()) {
    wire_->close();
    retired_.push_back(std::move(wire_));
  }
  done_(std::move(wire_), slots, std::move(problem));
}

void dialer::stop() {
  stopped_ = true;
  error_code ignored;
  resolver_.cancel();
  pause_.cancel(ignored);
  socket_.close(ignored);
  if (wire_)
    wire_->close();
}

} // namespace sluice::net
