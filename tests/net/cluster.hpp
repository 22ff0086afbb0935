#pragma once

#include <future>
#include <map>
#include <memory>
#include <thread>

#include "net/tcp.hpp"
#include "tests/net/fixtures.hpp"
#include "tests/support/temporary_folder.hpp"

namespace sluice::net::test {

inline tcp_edge activations(std::int32_t from, std::int32_t to, std::uint32_t slots = 1) {
  return {{payload::activation, from, to, to}, slots, {}};
}
inline tcp_edge gradients(std::int32_t from, std::int32_t to, std::uint32_t slots = 1) {
  return {{payload::gradient, from, to, to}, slots, {}};
}

/// Several networks in this process that stand for processes of their own.
class cluster {
public:
  /// hosted: the ranks of each process; each listens where its options say.
  cluster(std::vector<std::vector<std::int32_t>> hosted, std::vector<tcp_edge> edges,
          std::vector<tcp_options> options)
    : hosted_(std::move(hosted)),
      token_(make_run_token()),
      edges_(std::move(edges)) {
    for (auto& each : options) {
      each.log = [this](const std::string& line) {
        const std::lock_guard lock(guard_);
        log_.push_back(line);
      };
      networks_.push_back(std::make_unique<tcp_network>(std::move(each)));
    }
    for (std::size_t i = 0; i < hosted_.size(); ++i)
      for (const auto rank : hosted_[i])
        peers_[rank] = networks_[i]->address();
  }

  /// All with the same options.
  cluster(std::vector<std::vector<std::int32_t>> hosted, std::vector<tcp_edge> edges,
          const tcp_options& options = {})
    : cluster(hosted, std::move(edges), std::vector(hosted.size(), options)) {}

  /// What one of the processes starts its network with; a test may change it.
  tcp_run run_of(std::size_t process) const {
    return {token_, hosted_[process], peers_, edges_, std::chrono::milliseconds(patience)};
  }

  /// Starts one; the future gets what `done` gets.
  std::future<std::string> start(std::size_t process, tcp_run run) {
    auto end = std::make_shared<std::promise<std::string>>();
    networks_[process]->start(std::move(run),
                              [end](const std::string& problem) { end->set_value(problem); });
    return end->get_future();
  }

  /// Connects all, and lets every rank listen.
  void connect() {
    std::vector<std::future<std::string>> ends;
    for (std::size_t i = 0; i < networks_.size(); ++i)
      ends.push_back(start(i, run_of(i)));
    for (auto& each : ends)
      REQUIRE(each.get() == "");
    for (std::size_t i = 0; i < networks_.size(); ++i)
      for (const auto rank : hosted_[i])
        networks_[i]->at(rank).listen(listeners_[rank].events());
  }

  tcp_network& process(std::size_t i) { return *networks_[i]; }
  endpoint& at(std::int32_t rank) { return process_of(rank).at(rank); }
  listener& heard_by(std::int32_t rank) { return listeners_[rank]; }
  kernels::pool_usage usage(std::int32_t rank) { return process_of(rank).usage(rank); }
  void end(std::size_t process) { networks_[process].reset(); }
  const run_token& token() const { return token_; }

  std::vector<std::string> log() {
    const std::lock_guard lock(guard_);
    return log_;
  }

private:
  tcp_network& process_of(std::int32_t rank) {
    for (std::size_t i = 0; i < hosted_.size(); ++i)
      if (std::ranges::find(hosted_[i], rank) != hosted_[i].end())
        return *networks_[i];
    throw std::logic_error("no such rank");
  }

  std::mutex guard_;
  std::vector<std::string> log_;
  std::map<std::int32_t, listener> listeners_; // They outlive the networks that call them.
  std::vector<std::vector<std::int32_t>> hosted_;
  run_token token_;
  std::map<std::int32_t, std::string> peers_;
  std::vector<tcp_edge> edges_;
  std::vector<std::unique_ptr<tcp_network>> networks_;
};

/// Waits for what no event tells of, such as a buffer that comes back.
template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline)
      return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

} // namespace sluice::net::test
