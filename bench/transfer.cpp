#include "bench/transfer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "bench/iperf.hpp"
#include "bench/rounds.hpp"
#include "kernels/buffer_pool.hpp"
#include "net/tcp.hpp"

namespace sluice::bench {

namespace {

/// Receive slots of the edge: what the first one of four stages has.
constexpr std::uint32_t slots = 4;

/// Something that carries `count` blocks of `bytes` from one thread to another.
class carrier {
public:
  virtual ~carrier() = default;
  /// From the first byte sent to the last one received.
  virtual void carry(std::size_t bytes, std::size_t count) = 0;
};

// -- the limit: plain sockets ------------------------------------------------------------------

/// Two threads with blocking sockets, each with as many buffers as an edge has slots.
class plain_sockets final : public carrier {
public:
  plain_sockets() {
    const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* address = reinterpret_cast<sockaddr*>(&at);
    socklen_t size = sizeof at;
    sender_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const bool made = ::bind(listening, address, size) == 0 && ::listen(listening, 1) == 0
                   && ::getsockname(listening, address, &size) == 0
                   && ::connect(sender_, address, size) == 0;
    receiver_ = made ? ::accept(listening, nullptr, nullptr) : -1;
    ::close(listening);
    if (receiver_ < 0)
      throw std::runtime_error("no loopback connection");
    const int on = 1;
    ::setsockopt(sender_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~plain_sockets() override {
    ::close(sender_);
    ::close(receiver_);
  }

  void carry(std::size_t bytes, std::size_t count) override {
    from_.resize(bytes);
    for (auto& each : to_)
      each.resize(bytes);
    std::thread sending([&] {
      for (std::size_t i = 0; i < count; ++i)
        all(bytes, [&](std::size_t done) {
          return ::send(sender_, from_.data() + done, bytes - done, MSG_NOSIGNAL);
        });
    });
    for (std::size_t i = 0; i < count; ++i)
      all(bytes, [&](std::size_t done) {
        return ::recv(receiver_, to_[i % to_.size()].data() + done, bytes - done, 0);
      });
    sending.join();
  }

private:
  template <class Call>
  static void all(std::size_t bytes, Call call) {
    for (std::size_t done = 0; done < bytes;) {
      const auto some = call(done);
      if (some <= 0)
        throw std::runtime_error("the loopback connection broke");
      done += static_cast<std::size_t>(some);
    }
  }

  int sender_ = -1;
  int receiver_ = -1;
  std::vector<char> from_;
  std::array<std::vector<char>, slots> to_;
};

// -- an edge -----------------------------------------------------------------------------------

/// Counts what has arrived. Sleeps while there is nothing, as an actor does: std's semaphore spins,
/// on a core that the network's threads need.
class arrivals {
public:
  void add() {
    {
      const std::lock_guard lock(guard_);
      ++count_;
    }
    changed_.notify_one();
  }

  void fail(const std::string& what) {
    {
      const std::lock_guard lock(guard_);
      failure_ = what;
    }
    changed_.notify_one();
  }

  void wait_for_one() {
    std::unique_lock lock(guard_);
    changed_.wait(lock, [this] { return count_ > 0 || !failure_.empty(); });
    if (!failure_.empty())
      throw std::runtime_error(failure_);
    --count_;
  }

private:
  std::mutex guard_;
  std::condition_variable changed_;
  std::size_t count_ = 0;
  std::string failure_;
};

/// One edge between two networks; the receiving rank's owner has a thread, as a stage has.
class tensor_edge final : public carrier {
public:
  explicit tensor_edge(const net::tcp_options& options, std::string path = {}) {
    auto there = options;
    if (!path.empty())
      there.listen = "unix:" + path;
    sender_ = std::make_unique<net::tcp_network>(options);
    receiver_ = std::make_unique<net::tcp_network>(there);
    net::tcp_run run{net::make_run_token(),
                     {0},
                     {{1, receiver_->address()}},
                     {{{net::payload::activation, 0, 1, 1}, slots, {}}},
                     std::chrono::seconds{10}};
    std::thread sending([this, run] { sender_->connect(run); });
    run.hosted = {1};
    run.peers = {{0, sender_->address()}};
    receiver_->connect(run);
    sending.join();
    receiver_->at(1).listen({.arrived = [this](const net::transfer&) { arrived_.add(); },
                             .failed = [this](const std::string& what) { arrived_.fail(what); }});
  }

  void carry(std::size_t bytes, std::size_t count) override {
    ++epoch_;
    const auto data =
      pool_.zeros(kernels::dtype::float32, {static_cast<std::int64_t>(bytes / sizeof(float))});
    for (std::size_t i = 0; i < count; ++i)
      sender_->at(0).send(name(i), {data});
    for (std::size_t i = 0; i < count; ++i) {
      arrived_.wait_for_one();
      receiver_->at(1).take(name(i), pool_);
    }
  }

private:
  net::transfer name(std::size_t i) const {
    return {epoch_, net::payload::activation, 0, 1, 1, static_cast<std::int32_t>(i)};
  }

  kernels::buffer_pool pool_{kernels::make_cpu_device()};
  arrivals arrived_;
  std::uint64_t epoch_ = 0;
  std::unique_ptr<net::tcp_network> sender_;
  std::unique_ptr<net::tcp_network> receiver_;
};

// -- all of them -------------------------------------------------------------------------------

struct column {
  std::string name;
  std::unique_ptr<carrier> carries;
};

std::vector<column> make_columns(const workshop& in) {
  std::vector<column> all;
  net::tcp_options options;
  all.push_back({"edge", std::make_unique<tensor_edge>(options)});
  all.push_back(
    {"edge over a Unix socket", std::make_unique<tensor_edge>(options, in.file("socket"))});
  options.checksum = true;
  all.push_back({"edge with checksum", std::make_unique<tensor_edge>(options)});
  options.checksum = false;
  if (in.has_tls()) {
    options.tls = in.tls();
    all.push_back({"edge over TLS", std::make_unique<tensor_edge>(options)});
  }
  all.push_back({"plain sockets", std::make_unique<plain_sockets>()});
  return all;
}

std::string size_name(std::size_t bytes) {
  return bytes < (1 << 20) ? fmt::format("{} KiB", bytes >> 10)
                           : fmt::format("{} MiB", bytes >> 20);
}

void measure(std::vector<column>& columns, const iperf& known_tool, std::size_t bytes,
             std::size_t rounds, std::vector<measurement>& into) {
  constexpr std::size_t volume = std::size_t{256} << 20;
  const auto count = volume / bytes;
  series peer{fmt::format("iperf in blocks of {}", size_name(bytes))};
  std::vector<series> all;
  for (auto& each : columns) {
    all.push_back({fmt::format("{}, {}", each.name, size_name(bytes))});
    each.carries->carry(bytes, 4); // Buffers are made and pages touched.
  }
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < columns.size(); ++i)
      all[i].by_round.push_back(static_cast<double>(volume) / 1e9
                                / seconds_of([&] { columns[i].carries->carry(bytes, count); }));
    if (known_tool.is_there())
      peer.by_round.push_back(known_tool.bytes_per_second(bytes, volume) / 1e9);
  }
  for (const auto& each : all)
    into.push_back(compare(each, "GB/s", peer));
  // There without iperf, too.
  const auto& plain = all.back();
  all.front().name = fmt::format("edge beside plain sockets, {}", size_name(bytes));
  into.push_back(compare(all.front(), "GB/s", {"plain sockets", plain.by_round}));
}

} // namespace

std::vector<measurement> measure_transfers(const workshop& in, std::size_t rounds) {
  const iperf known_tool;
  auto columns = make_columns(in);
  std::vector<measurement> lines;
  for (const auto bytes : {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20})
    measure(columns, known_tool, bytes, rounds, lines);
  return lines;
}

} // namespace sluice::bench
