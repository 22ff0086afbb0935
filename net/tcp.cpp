#include "net/tcp.hpp"

#include <algorithm>
#include <future>
#include <set>
#include <stdexcept>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>
#include <openssl/crypto.h>

#include "net/tcp/channel.hpp"
#include "net/tcp/dialer.hpp"
#include "net/tcp/hosted_rank.hpp"
#include "net/tcp/listener.hpp"
#include "net/tcp/tls.hpp"

namespace sluice::net {

namespace asio = boost::asio;

/// Everything but the ends of ranks lives on the one thread.
class tcp_network::core {
public:
  explicit core(tcp_options options)
    : options_(std::move(options)),
      tls_(options_.tls ? make_tls_context(*options_.tls) : nullptr),
      listener_(io_, options_, tls_.get(), parse_address(options_.listen)),
      work_(io_.get_executor()),
      deadline_(io_),
      thread_([this] { io_.run(); }) {
    around_.limits = options_.limits;
    around_.checksum = options_.checksum;
    around_.failed = [this](channel& of, const std::string& why) { on_failed(of, why); };
    around_.closed = [this](channel&) { on_closed(); };
  }

  ~core() {
    asio::post(io_, [this] { leave(); });
    thread_.join();
  }

  const net::address& bound() const noexcept { return listener_.bound(); }

  void start(tcp_run run, std::function<void(const std::string&)> done);

  hosted_rank& at(std::int32_t rank) {
    const auto found = hosted_.find(rank);
    if (found == hosted_.end())
      throw std::out_of_range(fmt::format("rank {} is not of this process", rank));
    return *found->second;
  }

private:
  void prepare(const tcp_edge& of);
  void prepare_sender(const tcp_edge& of);
  void prepare_receiver(const tcp_edge& of);
  const std::string& peer_of(const net::edge& which, std::int32_t rank) const;

  void begin();
  answer judge(const hello& greeting, std::unique_ptr<wire>& from);
  void on_dialled(const net::edge& which, std::unique_ptr<wire> connected, std::uint32_t slots,
                  const std::string& problem);
  void one_more_connected();
  void on_deadline();
  void end_of_start(const std::string& problem);

  void on_failed(channel& of, const std::string& why);
  void on_closed();
  void leave();
  void close_all();
  template <class Function>
  void for_each_channel(Function function);

  struct receiving {
    std::unique_ptr<receive_channel> channel;
    std::uint32_t slots = 1;
    std::string layout;
  };

  tcp_options options_;
  tcp_run run_;
  std::function<void(const std::string&)> done_; ///< empty once called
  bool dead_ = false;                            ///< the start failed

  channel::surroundings around_;
  // Above the sockets, which must go before it does.
  asio::io_context io_;
  std::unique_ptr<asio::ssl::context> tls_;
  listener listener_;
  std::map<std::int32_t, std::unique_ptr<hosted_rank>> hosted_;
  std::map<net::edge, std::unique_ptr<send_channel>> senders_;
  std::map<net::edge, receiving> receivers_;
  std::map<net::edge, std::unique_ptr<dialer>> dialers_;
  std::set<std::pair<std::int32_t, std::int32_t>> reported_; ///< hosted rank, lost rank
  std::size_t unconnected_ = 0;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer deadline_;
  std::thread thread_;
};

// -- before the start --------------------------------------------------------------------------

void tcp_network::core::start(tcp_run run, std::function<void(const std::string&)> done) {
  if (!hosted_.empty())
    throw std::logic_error("a network is started once");
  run_ = std::move(run);
  done_ = std::move(done);
  for (const auto rank : run_.hosted)
    hosted_.emplace(rank, std::make_unique<hosted_rank>(io_, options_));
  for (auto& [rank, end] : hosted_)
    for (auto& [other, other_end] : hosted_)
      end->add_neighbour(other, *other_end);
  for (const auto& each : run_.edges)
    prepare(each);
  asio::post(io_, [this] { begin(); });
}

void tcp_network::core::prepare(const tcp_edge& of) {
  const bool sends = hosted_.contains(of.edge.from);
  const bool receives = hosted_.contains(of.edge.to);
  if (sends == receives)
    return; // Within this process, or none of its business.
  if (of.slots == 0)
    throw std::invalid_argument(to_string(of.edge) + ": at least one receive slot is needed");
  if (sends)
    prepare_sender(of);
  else
    prepare_receiver(of);
}

const std::string& tcp_network::core::peer_of(const net::edge& which, std::int32_t rank) const {
  const auto found = run_.peers.find(rank);
  if (found == run_.peers.end())
    throw std::invalid_argument(
      fmt::format("{}: no address is known for rank {}", to_string(which), rank));
  return found->second;
}

void tcp_network::core::prepare_sender(const tcp_edge& of) {
  const auto& peer = peer_of(of.edge, of.edge.to);
  auto channel = std::make_unique<send_channel>(of.edge, peer, around_);
  hosted_.at(of.edge.from)->add_sender(*channel);
  if (!senders_.emplace(of.edge, std::move(channel)).second)
    throw std::invalid_argument(to_string(of.edge) + ": listed twice");
  dialers_.emplace(of.edge,
                   std::make_unique<dialer>(
                     io_, options_, tls_.get(), parse_address(peer),
                     hello{run_.token, of.edge, of.layout},
                     [this, which = of.edge](std::unique_ptr<wire> connected, std::uint32_t slots,
                                             const std::string& problem) {
                       on_dialled(which, std::move(connected), slots, problem);
                     }));
}

void tcp_network::core::prepare_receiver(const tcp_edge& of) {
  auto& end = *hosted_.at(of.edge.to);
  auto channel = std::make_unique<receive_channel>(
    of.edge, peer_of(of.edge, of.edge.from), end.pool(), around_,
    [&end](frame what) { end.deliver(what.what, std::move(what.tensors)); });
  end.add_receiver(*channel);
  if (!receivers_.emplace(of.edge, receiving{std::move(channel), of.slots, of.layout}).second)
    throw std::invalid_argument(to_string(of.edge) + ": listed twice");
}

// -- connecting --------------------------------------------------------------------------------

void tcp_network::core::begin() {
  unconnected_ = senders_.size() + receivers_.size();
  if (unconnected_ == 0) {
    end_of_start({});
  } else {
    deadline_.expires_after(run_.deadline);
    deadline_.async_wait([this](const error_code& cancelled) {
      if (!cancelled && done_)
        on_deadline();
    });
  }
  listener_.start(
    [this](const hello& greeting, std::unique_ptr<wire>& from) { return judge(greeting, from); });
  for (auto& [which, each] : dialers_)
    each->start();
}

answer tcp_network::core::judge(const hello& greeting, std::unique_ptr<wire>& from) {
  // In constant time: the reply must not help to guess a token.
  if (CRYPTO_memcmp(greeting.token.data(), run_.token.data(), run_.token.size()) != 0)
    return {verdict::another_run, 0, "the token of another run"};
  const auto found = receivers_.find(greeting.what);
  if (dead_ || found == receivers_.end())
    return {verdict::unknown_edge, 0, to_string(greeting.what) + " are not received here"};
  auto& [channel, slots, layout] = found->second;
  if (channel->attached())
    return {verdict::already_connected, 0, to_string(greeting.what) + " are connected already"};
  if (!layout.empty() && !greeting.layout.empty() && layout != greeting.layout) {
    const auto why = fmt::format("{}: {} would be sent, {} is expected", to_string(greeting.what),
                                 greeting.layout, layout);
    end_of_start(fmt::format("rank {} at {}: {}", greeting.what.from, channel->peer(), why));
    return {verdict::another_layout, 0, why};
  }
  const answer welcome{verdict::welcome, slots, {}};
  channel->attach(std::move(from), slots, encode(welcome));
  one_more_connected();
  return welcome;
}

void tcp_network::core::on_dialled(const net::edge& which, std::unique_ptr<wire> connected,
                                   std::uint32_t slots, const std::string& problem) {
  auto& channel = *senders_.at(which);
  if (!problem.empty()) {
    end_of_start(
      fmt::format("rank {} at {}: {}: {}", which.to, channel.peer(), to_string(which), problem));
    return;
  }
  channel.attach(std::move(connected), slots);
  one_more_connected();
}

void tcp_network::core::one_more_connected() {
  if (--unconnected_ == 0)
    end_of_start({});
}

void tcp_network::core::on_deadline() {
  std::string first;
  std::size_t missing = 0;
  const auto note = [&](const channel& of, std::int32_t peer, std::string_view why) {
    if (of.attached())
      return;
    if (missing++ == 0)
      first = fmt::format("rank {} at {}: {}: {}", peer, of.peer(), to_string(of.edge()), why);
  };
  for (const auto& [which, each] : senders_) {
    const auto& why = dialers_.at(which)->last_problem();
    note(*each, which.to, why.empty() ? "it did not answer" : why);
  }
  for (const auto& [which, each] : receivers_)
    note(*each.channel, which.from, "it did not connect");
  const auto seconds = std::chrono::duration<double>(run_.deadline).count();
  end_of_start(fmt::format("{} of {} connections were not made within {} s; {}", missing,
                           senders_.size() + receivers_.size(), seconds, first));
}

/// Once: with an empty text when all connections are made, else with what failed.
void tcp_network::core::end_of_start(const std::string& problem) {
  if (!done_)
    return;
  deadline_.cancel();
  const auto done = std::exchange(done_, nullptr);
  if (!problem.empty()) {
    dead_ = true;
    close_all();
  }
  done(problem);
}

// -- faults and the end ------------------------------------------------------------------------

void tcp_network::core::on_failed(channel& of, const std::string& why) {
  const auto& which = of.edge();
  const bool sends = hosted_.contains(which.from);
  const auto own = sends ? which.from : which.to;
  const auto lost = sends ? which.to : which.from;
  const auto text = fmt::format("rank {} at {}: {}: {}", lost, of.peer(), to_string(which), why);
  if (done_)
    end_of_start(text);
  else if (reported_.emplace(own, lost).second)
    hosted_.at(own)->fail(text);
}

template <class Function>
void tcp_network::core::for_each_channel(Function function) {
  for (auto& [which, each] : senders_)
    function(*each);
  for (auto& [which, each] : receivers_)
    function(*each.channel);
}

void tcp_network::core::close_all() {
  for (auto& [which, each] : dialers_)
    each->stop();
  for_each_channel([](channel& each) { each.close(); });
}

void tcp_network::core::leave() {
  done_ = nullptr;
  dead_ = true;
  deadline_.cancel();
  listener_.stop();
  for (auto& [which, each] : dialers_)
    each->stop();
  // A peer that takes nothing must not keep this process from ending.
  deadline_.expires_after(std::chrono::seconds{1});
  deadline_.async_wait([this](const error_code& cancelled) {
    if (!cancelled)
      close_all();
  });
  work_.reset();
  for_each_channel([](channel& each) { each.leave(); });
  on_closed();
}

void tcp_network::core::on_closed() {
  if (work_.owns_work())
    return;
  bool all = true;
  for_each_channel([&](const channel& each) { all = all && each.settled(); });
  if (all)
    deadline_.cancel();
}

// -- the interface -----------------------------------------------------------------------------

tcp_network::tcp_network(tcp_options options) : core_(std::make_unique<core>(std::move(options))) {}

tcp_network::~tcp_network() = default;

std::string tcp_network::address() const {
  return to_string(core_->bound());
}

void tcp_network::start(tcp_run run, std::function<void(const std::string& problem)> done) {
  core_->start(std::move(run), std::move(done));
}

void tcp_network::connect(tcp_run run) {
  std::promise<std::string> end;
  start(std::move(run), [&](const std::string& problem) { end.set_value(problem); });
  if (const auto problem = end.get_future().get(); !problem.empty())
    throw std::runtime_error(problem);
}

endpoint& tcp_network::at(std::int32_t rank) {
  return core_->at(rank);
}

kernels::pool_usage tcp_network::usage(std::int32_t rank) const {
  return core_->at(rank).pool().usage();
}

} // namespace sluice::net
