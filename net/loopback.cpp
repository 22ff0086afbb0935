#include "net/loopback.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "kernels/copy.hpp"
#include "net/inbox.hpp"

namespace sluice::net {

namespace {

using std::chrono::microseconds;

/// One edge: its transfers in order, and how many lie at the receiver.
struct edge {
  struct waiting {
    transfer what;
    kernels::tensor_list tensors;
  };
  std::deque<waiting> queue; ///< sent, without a receive slot yet
  std::int32_t at_receiver = 0;
};

using edge_key = std::tuple<payload, std::int32_t, std::int32_t, std::int32_t>;

edge_key key_of(const transfer& what) {
  return {what.payload, what.from, what.to, what.chunk};
}

class loopback_network;

class loopback_endpoint final : public endpoint {
public:
  loopback_endpoint(loopback_network& of, std::int32_t rank) : network_(of), rank_(rank) {}

  void listen(endpoint_events events) override { events_ = std::move(events); }
  void send(const transfer& what, kernels::tensor_list tensors) override;
  kernels::tensor_list take(const transfer& what, kernels::buffer_pool& pool) override;
  void forget(std::uint64_t epoch) override;

  void deliver(const transfer& what, kernels::tensor_list tensors);

private:
  loopback_network& network_;
  std::int32_t rank_;
  endpoint_events events_;
  inbox inbox_;
};

class loopback_network final : public network {
public:
  loopback_network(std::int32_t ranks, loopback_options options)
    : options_(std::move(options)),
      work_(timers_.get_executor()) {
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      ends_.push_back(std::make_unique<loopback_endpoint>(*this, rank));
    thread_ = std::thread([this] { timers_.run(); });
  }

  ~loopback_network() override {
    timers_.stop();
    thread_.join();
  }

  endpoint& at(std::int32_t rank) override { return *ends_.at(static_cast<std::size_t>(rank)); }

  void enqueue(const transfer& what, kernels::tensor_list tensors) {
    const std::lock_guard lock(guard_);
    auto& on = edges_[key_of(what)];
    on.queue.push_back({what, std::move(tensors)});
    start_next(on);
  }

  void slot_freed(const transfer& what) {
    const std::lock_guard lock(guard_);
    auto& on = edges_[key_of(what)];
    --on.at_receiver;
    start_next(on);
  }

  /// Drops what still waits for a slot at `rank`.
  void forget(std::int32_t rank, std::uint64_t epoch) {
    const std::lock_guard lock(guard_);
    for (auto& [key, on] : edges_)
      if (std::get<2>(key) == rank)
        std::erase_if(on.queue, [&](const auto& each) { return each.what.epoch <= epoch; });
  }

private:
  /// Posts the head of the edge's queue if the receiver has a slot for it.
  void start_next(edge& on) {
    if (on.queue.empty() || !has_slot(on))
      return;
    ++on.at_receiver;
    auto next = std::move(on.queue.front());
    on.queue.pop_front();
    const auto latency = options_.latency ? options_.latency(next.what) : microseconds{0};
    after(latency, [this, next = std::move(next)]() mutable { run(std::move(next)); });
  }

  bool has_slot(const edge& on) const {
    const auto& next = on.queue.front().what;
    return next.from == next.to || on.at_receiver < options_.slots;
  }

  void run(edge::waiting passing) {
    // The receiver gets a copy; the channel keeps the sender's buffers until completion.
    const auto& what = passing.what;
    auto to = static_cast<loopback_endpoint*>(ends_[static_cast<std::size_t>(what.to)].get());
    to->deliver(what, copy_of(passing.tensors));
    const auto held = options_.completion ? options_.completion(what) : microseconds{0};
    after(held, [this, sent = std::move(passing.tensors)]() mutable {
      if (options_.poison)
        for (auto& each : sent)
          if (each && each.unique())
            each.where()->fill(each.bytes_span().data(), std::byte{0xFF}, each.bytes());
    });
  }

  kernels::tensor_list copy_of(const kernels::tensor_list& from) {
    kernels::tensor_list result;
    for (const auto& each : from) {
      auto& to = result.emplace_back();
      if (!each)
        continue;
      to = kernels::copied(wire_, each);
    }
    return result;
  }

  template <class Function>
  void after(microseconds delay, Function function) {
    if (delay <= microseconds{0}) {
      boost::asio::post(timers_, std::move(function));
      return;
    }
    auto timer = std::make_shared<boost::asio::steady_timer>(timers_, delay);
    timer->async_wait([timer, function = std::move(function)](auto) mutable { function(); });
  }

  loopback_options options_;
  kernels::buffer_pool wire_{kernels::make_cpu_device()};
  std::mutex guard_;
  std::map<edge_key, edge> edges_;
  std::vector<std::unique_ptr<loopback_endpoint>> ends_;
  boost::asio::io_context timers_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

void loopback_endpoint::send(const transfer& what, kernels::tensor_list tensors) {
  network_.enqueue(what, std::move(tensors));
}

kernels::tensor_list loopback_endpoint::take(const transfer& what, kernels::buffer_pool& pool) {
  auto tensors = inbox_.take(what);
  network_.slot_freed(what);
  for (auto& each : tensors)
    each.charge_to(pool, kernels::buffer_use::transfer);
  return tensors;
}

void loopback_endpoint::deliver(const transfer& what, kernels::tensor_list tensors) {
  if (inbox_.put(what, std::move(tensors)))
    events_.arrived(what);
  else
    network_.slot_freed(what); // Of a forgotten epoch: nobody will take it.
}

void loopback_endpoint::forget(std::uint64_t epoch) {
  network_.forget(rank_, epoch);
  for (const auto& dropped : inbox_.forget(epoch))
    network_.slot_freed(dropped);
}

} // namespace

std::unique_ptr<network> make_loopback_network(std::int32_t ranks, loopback_options options) {
  return std::make_unique<loopback_network>(ranks, std::move(options));
}

} // namespace sluice::net
