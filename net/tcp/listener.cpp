#include "net/tcp/listener.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <fmt/format.h>
#include <sys/stat.h>

namespace sluice::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using generic = asio::generic::stream_protocol;

// -- guests ------------------------------------------------------------------------------------

/// A connection whose greeting has not been heard to its end, or that is being turned away.
class listener::guest : public std::enable_shared_from_this<guest> {
public:
  guest(listener& host, stream_socket socket, std::string who)
    : host_(host),
      who_(std::move(who)),
      wire_(std::make_unique<wire>(std::move(socket), host.tls_)),
      deadline_(host.io_) {}

  void start() {
    deadline_.expires_after(host_.options_.greeting_deadline);
    deadline_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (!cancelled)
        self->end(self->answered_ ? "" : "no greeting came in time");
    });
    wire_->async_handshake(asio::ssl::stream_base::server,
                           [self = shared_from_this()](const error_code& problem) {
                             if (problem)
                               self->end(reason_of(problem));
                             else
                               self->read();
                           });
  }

  /// Closes. why: for the log; empty when there is nothing to say.
  void end(const std::string& why) {
    if (std::exchange(ended_, true))
      return;
    deadline_.cancel();
    if (wire_)
      wire_->close();
    if (!why.empty())
      host_.log_once(who_, why);
    host_.drop(*this);
  }

private:
  void read() {
    if (ended_)
      return;
    wire_->async_read_some(
      decoder_.wanted(), [self = shared_from_this()](const error_code& problem, std::size_t bytes) {
        if (problem) {
          self->end(reason_of(problem) + " before its greeting");
          return;
        }
        switch (self->decoder_.advance(bytes)) {
        case progress::more:
          self->read();
          break;
        case progress::refused:
          self->turn_away(self->decoder_.refusal());
          break;
        case progress::complete:
          self->judge();
          break;
        }
      });
  }

  void judge() {
    if (ended_)
      return;
    const auto reply = host_.judge_(decoder_.result(), wire_);
    if (reply.verdict == verdict::welcome)
      end({}); // The judge has taken the connection.
    else
      turn_away(reply);
  }

  void turn_away(const answer& reply) {
    if (ended_)
      return;
    answered_ = true;
    host_.log_once(who_, reply.text);
    reply_ = encode(reply);
    write();
  }

  void write() {
    wire_->async_write_some(
      asio::const_buffer(reply_.data(), reply_.size()),
      [self = shared_from_this()](const error_code& problem, std::size_t bytes) {
        auto& left = self->reply_;
        left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(bytes));
        if (problem || self->ended_)
          self->end({});
        else if (!left.empty())
          self->write();
        else
          self->linger();
      });
  }

  // To close while unread bytes lie here would reset the connection, and the peer might lose the
  // answer. So what still comes is read and dropped, until the peer closes or the deadline.
  void linger() {
    if (reply_.empty() && !std::exchange(output_ended_, true))
      wire_->end_output();
    wire_->async_read_some(dropped_,
                           [self = shared_from_this()](const error_code& problem, std::size_t) {
                             if (problem || self->ended_)
                               self->end({});
                             else
                               self->linger();
                           });
  }

  listener& host_;
  std::string who_;
  std::unique_ptr<wire> wire_;
  asio::steady_timer deadline_;
  hello_decoder decoder_;
  std::vector<std::byte> reply_;
  std::array<std::byte, 1024> dropped_;
  bool answered_ = false;
  bool output_ended_ = false;
  bool ended_ = false;
};

// -- the listener ------------------------------------------------------------------------------

namespace {

std::string name_of(const generic::endpoint& peer) {
  if (peer.protocol().family() == AF_UNIX)
    return "a process of this host";
  tcp::endpoint numbers;
  std::memcpy(numbers.data(), peer.data(), std::min(peer.size(), numbers.capacity()));
  return numbers.address().to_string(); // Not the port: the same stranger has many.
}

/// Whether somebody listens at a Unix-domain socket, or only its name was left over.
bool somebody_listens(asio::io_context& on, const generic::endpoint& at) {
  stream_socket probe(on, at.protocol());
  error_code problem;
  probe.connect(at, problem);
  return !problem;
}

generic::endpoint resolve(asio::io_context& on, const address& at) {
  if (at.is_unix())
    return asio::local::stream_protocol::endpoint(at.path);
  tcp::resolver resolver(on);
  return resolver.resolve(at.host, std::to_string(at.port), tcp::resolver::passive)
    .begin()
    ->endpoint();
}

bool reaches_this_host_only(const generic::endpoint& at) {
  if (at.protocol().family() == AF_UNIX)
    return true;
  tcp::endpoint numbers;
  std::memcpy(numbers.data(), at.data(), std::min(at.size(), numbers.capacity()));
  return numbers.address().is_loopback();
}

} // namespace

listener::listener(asio::io_context& on, const tcp_options& options, asio::ssl::context* tls,
                   const address& at)
  : io_(on),
    options_(options),
    tls_(tls),
    bound_(at),
    acceptor_(on),
    pause_(on) {
  try {
    const auto to = resolve(on, at);
    if (tls == nullptr && !options.trust_the_network && !reaches_this_host_only(to))
      throw std::runtime_error("other hosts may connect only with TLS");
    acceptor_.open(to.protocol());
    configure(acceptor_.native_handle(), options);
    if (at.is_unix()) {
      if (std::filesystem::is_socket(at.path) && !somebody_listens(on, to))
        std::filesystem::remove(at.path);
      acceptor_.bind(to);
      ::chmod(at.path.c_str(), S_IRUSR | S_IWUSR); // Before listen(): nobody is in yet.
    } else {
      acceptor_.set_option(asio::socket_base::reuse_address(true));
      acceptor_.bind(to);
      tcp::endpoint numbers;
      const auto local = acceptor_.local_endpoint();
      std::memcpy(numbers.data(), local.data(), local.size());
      bound_.port = numbers.port();
    }
    acceptor_.listen();
  } catch (const std::exception& problem) {
    throw std::runtime_error(fmt::format("cannot listen at {}: {}", to_string(at), problem.what()));
  }
}

listener::~listener() {
  std::error_code ignored;
  if (bound_.is_unix())
    std::filesystem::remove(bound_.path, ignored);
}

void listener::start(judge judge) {
  judge_ = std::move(judge);
  accept();
}

void listener::accept() {
  acceptor_.async_accept(from_, [this](const error_code& problem, stream_socket socket) {
    on_accepted(problem, std::move(socket));
  });
}

void listener::on_accepted(const error_code& problem, stream_socket socket) {
  if (stopped_)
    return;
  if (problem) {
    // Such as too many open files: that passes when others close.
    log_once("accepting", problem.message());
    pause_.expires_after(std::chrono::milliseconds{50});
    pause_.async_wait([this](const error_code& cancelled) {
      if (!cancelled && !stopped_)
        accept();
    });
    return;
  }
  close_on_exec(socket.native_handle());
  guests_.push_back(std::make_shared<guest>(*this, std::move(socket), name_of(from_)));
  guests_.back()->start();
  if (guests_.size() > options_.strangers)
    guests_.front()->end("too many greetings at a time");
  accept();
}

void listener::drop(const guest& which) {
  std::erase_if(guests_, [&](const auto& each) { return each.get() == &which; });
}

/// A flood of strangers must neither fill the log nor this set.
void listener::log_once(const std::string& who, const std::string& why) {
  constexpr std::size_t most = 100;
  if (!options_.log || logged_.size() > most)
    return;
  auto line = fmt::format("tensor port {}: {}: {}", to_string(bound_), who, why);
  if (logged_.size() == most)
    line = fmt::format("tensor port {}: further refusals are not logged", to_string(bound_));
  if (logged_.insert(line).second)
    options_.log(line);
}

void listener::stop() {
  stopped_ = true;
  error_code ignored;
  acceptor_.cancel(ignored);
  pause_.cancel(ignored);
  while (!guests_.empty())
    guests_.front()->end({});
}

} // namespace sluice::net
