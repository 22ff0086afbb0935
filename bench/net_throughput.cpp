#include "bench/net_throughput.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <semaphore>
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
#include <fmt/ostream.h>

#include "kernels/buffer_pool.hpp"
#include "net/tcp.hpp"

namespace sluice::bench {

namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point begun) {
  return std::chrono::duration<double>(clock::now() - begun).count();
}

/// Something that carries `count` blocks of `bytes` from one thread to another.
class carrier {
public:
  virtual ~carrier() = default;
  /// Returns the seconds from the first byte sent to the last one received.
  virtual double carry(std::size_t bytes, std::size_t count) = 0;
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

  double carry(std::size_t bytes, std::size_t count) override {
    from_.resize(bytes);
    for (auto& each : to_)
      each.resize(bytes);
    const auto begun = clock::now();
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
    const auto took = seconds_since(begun);
    sending.join();
    return took;
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
  std::array<std::vector<char>, 2> to_;
};

// -- an edge -----------------------------------------------------------------------------------

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
                     {{{net::payload::activation, 0, 1, 1}, 2, {}}},
                     std::chrono::seconds{10}};
    std::thread sending([this, run] { sender_->connect(run); });
    run.hosted = {1};
    run.peers = {{0, sender_->address()}};
    receiver_->connect(run);
    sending.join();
    receiver_->at(1).listen({.arrived = [this](const net::transfer&) { arrived_.release(); },
                             .failed =
                               [this](const std::string& what) {
                                 failure_ = what;
                                 arrived_.release();
                               }});
  }

  double carry(std::size_t bytes, std::size_t count) override {
    ++epoch_;
    const auto data =
      pool_.zeros(kernels::dtype::float32, {static_cast<std::int64_t>(bytes / sizeof(float))});
    const auto begun = clock::now();
    for (std::size_t i = 0; i < count; ++i)
      sender_->at(0).send(name(i), {data});
    for (std::size_t i = 0; i < count; ++i) {
      arrived_.acquire();
      if (!failure_.empty())
        throw std::runtime_error(failure_);
      receiver_->at(1).take(name(i), pool_);
    }
    return seconds_since(begun);
  }

private:
  net::transfer name(std::size_t i) const {
    return {epoch_, net::payload::activation, 0, 1, 1, static_cast<std::int32_t>(i)};
  }

  kernels::buffer_pool pool_{kernels::make_cpu_device()};
  std::counting_semaphore<> arrived_{0};
  std::string failure_;
  std::uint64_t epoch_ = 0;
  std::unique_ptr<net::tcp_network> sender_;
  std::unique_ptr<net::tcp_network> receiver_;
};

// -- what else is needed -----------------------------------------------------------------------

/// A folder with a certificate that is its own authority, made by the openssl command.
class workshop {
public:
  workshop() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("no temporary folder");
    folder_ = name;
    const auto command = fmt::format(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 "
      "-subj /CN=bench -keyout {0}/key -out {0}/crt >/dev/null 2>&1",
      name);
    has_tls_ = std::system(command.c_str()) == 0;
  }
  ~workshop() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  bool has_tls() const { return has_tls_; }
  std::string file(const char* name) const { return (folder_ / name).string(); }

private:
  std::filesystem::path folder_;
  bool has_tls_ = false;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// GB/s as iperf3 measures it with blocks of `bytes`; 0 without iperf3.
double iperf3(std::size_t bytes) {
  // iperf3 takes blocks of up to 1 MiB.
  const auto command = fmt::format(
    "command -v iperf3 >/dev/null && (iperf3 -s -1 -p 45311 >/dev/null 2>&1 & sleep 0.3; "
    "iperf3 -c 127.0.0.1 -p 45311 -t 1 -l {} -f K 2>/dev/null | awk '/receiver/ {{print $7}}')",
    std::min<std::size_t>(bytes, 1 << 20));
  std::FILE* output = ::popen(command.c_str(), "r");
  if (output == nullptr)
    return 0;
  double kilobytes = 0;
  const bool read = std::fscanf(output, "%lf", &kilobytes) == 1;
  ::pclose(output);
  return read ? kilobytes * 1024 / 1e9 : 0;
}

struct column {
  const char* name;
  std::unique_ptr<carrier> carries;
};

std::vector<column> make_columns(const workshop& in) {
  std::vector<column> all;
  all.push_back({"plain sockets", std::make_unique<plain_sockets>()});
  net::tcp_options options;
  all.push_back({"edge", std::make_unique<tensor_edge>(options)});
  all.push_back({"unix socket", std::make_unique<tensor_edge>(options, in.file("socket"))});
  options.checksum = true;
  all.push_back({"checksum", std::make_unique<tensor_edge>(options)});
  options.checksum = false;
  if (in.has_tls()) {
    options.tls = net::tls_files{in.file("crt"), in.file("crt"), in.file("key")};
    all.push_back({"TLS", std::make_unique<tensor_edge>(options)});
  }
  return all;
}

std::string size_name(std::size_t bytes) {
  return bytes < (1 << 20) ? fmt::format("{} KiB", bytes >> 10)
                           : fmt::format("{} MiB", bytes >> 20);
}

void print_row(std::ostream& to, std::vector<column>& columns, std::size_t bytes,
               std::size_t rounds) {
  constexpr std::size_t volume = std::size_t{256} << 20;
  const auto count = std::clamp<std::size_t>(volume / bytes, 4, 2048);
  std::vector<std::vector<double>> seconds(columns.size());
  for (auto& each : columns) // Buffers are made and pages touched.
    each.carries->carry(bytes, 4);
  for (std::size_t round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < columns.size(); ++i)
      seconds[i].push_back(columns[i].carries->carry(bytes, count));
  const auto volume_gb = static_cast<double>(bytes * count) / 1e9;
  fmt::print(to, "{:>8}", size_name(bytes));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < rounds; ++round)
      ratios.push_back(seconds[0][round] / seconds[i][round]);
    const auto rate = volume_gb / median(seconds[i]);
    if (i == 0)
      fmt::print(to, "{:>16.2f}", rate);
    else
      fmt::print(to, "{:>8.2f} ({:4.2f})", median(ratios), rate);
  }
  if (const auto theirs = iperf3(bytes); theirs > 0)
    fmt::print(to, "{:>10.2f}", theirs);
  fmt::print(to, "\n");
  to.flush();
}

} // namespace

void net_throughput(std::ostream& to, std::size_t rounds) {
  const workshop in;
  auto columns = make_columns(in);
  fmt::print(
    to,
    "One tensor edge over the loopback, 2 slots, against plain blocking sockets: ratio "
    "(GB/s);\nmedians of {} rounds, all measured in turn in each. Plain sockets and iperf3 "
    "(1 s, blocks of\n1 MiB at most): GB/s.\n\n{:>8}",
    rounds, "size");
  for (std::size_t i = 0; i < columns.size(); ++i)
    fmt::print(to, "{:>{}}", columns[i].name, i == 0 ? 16 : 15);
  fmt::print(to, "{:>10}\n", iperf3(1 << 16) > 0 ? "iperf3" : "");
  for (std::size_t bytes = std::size_t{64} << 10; bytes <= std::size_t{64} << 20; bytes *= 4)
    print_row(to, columns, bytes, std::max<std::size_t>(1, rounds));
}

} // namespace sluice::bench
