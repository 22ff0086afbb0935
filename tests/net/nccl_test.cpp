// The NCCL channel on emulated GPUs, driven by hand in place of stages and sequencer.

#include "net/nccl.hpp"

#include <doctest/doctest.h>

#include <array>
#include <barrier>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "kernels/copy.hpp"
#include "kernels/cuda/device.hpp"
#include "net/local.hpp"
#include "tests/emulation/fixtures.hpp"

using namespace sluice;
using net::payload;

namespace {

/// In which order the ends hear of a transfer.
enum class order : std::uint8_t {
  total,     ///< the same at both
  own_first, ///< each sender's own before what others offered: no order at all
};

/// Two ranks on two GPUs, each with a thread, and the trainer's rank without one.
class two_ranks {
public:
  explicit two_ranks(order how, std::chrono::milliseconds deadline = std::chrono::seconds(10))
    : how_(how) {
    net::nccl_options options;
    options.gpu_ranks = {0, 1};
    options.others = net::make_local_network(3);
    options.deadline = deadline;
    network_ = net::make_nccl_network(std::move(options));
    network_->order_by([this](const net::offer& what) { put(what); });
  }

  class end {
  public:
    end(two_ranks& all, std::int32_t rank)
      : all_(all),
        rank_(rank),
        on_(std::make_shared<kernels::cuda::device>(rank)),
        endpoint_(all.network_->at(rank)) {
      endpoint_.listen({.arrived = [this](const net::transfer&) { all_.note(rank_); }});
    }
    ~end() { endpoint_.close(); }

    void open() {
      endpoint_.open(on_);
      // Room for what is sent and received: cudaMalloc() may wait for transfers under way.
      kernels::tensor_list held;
      while (held.size() < 8)
        held.push_back(on_.allocate(kernels::dtype::float32, {2, 2}));
    }

    /// A tensor of four floats of this value, and an absent one.
    void send(const net::transfer& what, float value) {
      auto host = pool_.allocate(kernels::dtype::float32, {2, 2});
      std::ranges::fill(host.span<float>(), value);
      auto sent = kernels::copied(on_, host);
      on_.where().wait();
      endpoint_.send(what, {std::move(sent), kernels::tensor{}});
    }

    void commit_next() { endpoint_.commit(all_.next(rank_)); }
    void wait_for_arrivals(int count) { all_.wait(rank_, count); }
    void forget(std::uint64_t epoch) { endpoint_.forget(epoch); }

    float take(const net::transfer& what) {
      const auto tensors = endpoint_.take(what, on_.pool());
      REQUIRE(tensors.size() == 2);
      REQUIRE_FALSE(tensors[1]);
      return kernels::copied(pool_, tensors[0]).span<float>()[3];
    }

    /// Whether what is given to the device to compute now is done when `until` returns.
    template <class Function>
    bool computes_during(Function until) {
      const emulation::test::cuda_event computed;
      const auto computing = static_cast<kernels::cuda::device&>(on_.where()).compute_stream();
      const auto target = on_.zeros(kernels::dtype::float32, {64});
      emulation::test::must(cudaEventRecord(computed, computing));
      until();
      return cudaEventQuery(computed) == cudaSuccess;
    }

    cudaError_t synchronize() { return cudaDeviceSynchronize(); }
    std::int32_t rank() const { return rank_; }

  private:
    two_ranks& all_;
    std::int32_t rank_;
    kernels::buffer_pool pool_{kernels::make_cpu_device()};
    kernels::stream on_;
    net::endpoint& endpoint_;
  };

  template <class Program>
  void run(Program program) {
    const auto one = [&](std::int32_t rank) {
      end mine(*this, rank);
      mine.open();
      program(mine);
      meet(); // the end of one may give up what the other still waits for
    };
    std::thread first(one, 0);
    std::thread second(one, 1);
    first.join();
    second.join();
  }

  void meet() { barrier_.arrive_and_wait(); }

private:
  void put(const net::offer& what) {
    const std::lock_guard lock(guard_);
    const auto from = static_cast<std::size_t>(what.what.from);
    if (how_ == order::own_first)
      queues_[from].push_front({what});
    else
      queues_[from].push_back({what});
    queues_[1 - from].push_back({what});
    changed_.notify_all();
  }

  std::vector<net::offer> next(std::int32_t rank) {
    std::unique_lock lock(guard_);
    auto& queue = queues_[static_cast<std::size_t>(rank)];
    changed_.wait(lock, [&] { return !queue.empty(); });
    auto first = std::move(queue.front());
    queue.pop_front();
    return first;
  }

  void note(std::int32_t rank) {
    const std::lock_guard lock(guard_);
    ++arrived_[static_cast<std::size_t>(rank)];
    changed_.notify_all();
  }

  void wait(std::int32_t rank, int count) {
    std::unique_lock lock(guard_);
    changed_.wait(lock, [&] { return arrived_[static_cast<std::size_t>(rank)] >= count; });
  }

  order how_;
  std::unique_ptr<net::network> network_;
  std::mutex guard_;
  std::condition_variable changed_;
  std::array<std::deque<std::vector<net::offer>>, 2> queues_;
  std::array<int, 2> arrived_{};
  std::barrier<> barrier_{2};
};

net::transfer named(std::int32_t from, std::int32_t micro_batch, std::uint64_t epoch = 1) {
  return {epoch, payload::activation, from, 1 - from, 1 - from, micro_batch};
}

} // namespace

TEST_CASE("transfers that cross arrive, where both ends enqueue them in one order") {
  emulation::schedule which{};
  SUBCASE("eager") {
    which = emulation::schedule::eager;
  }
  SUBCASE("random") {
    which = emulation::schedule::random;
  }
  SUBCASE("lazy") {
    which = emulation::schedule::lazy;
  }
  const emulation::test::session run(which, 9);
  two_ranks ranks(order::total);
  ranks.run([&](two_ranks::end& me) {
    constexpr int count = 3;
    for (int i = 0; i < count; ++i)
      me.send(named(me.rank(), i), static_cast<float>(10 * me.rank() + i));
    for (int i = 0; i < 2 * count; ++i)
      me.commit_next();
    me.wait_for_arrivals(count);
    const auto peer = 1 - me.rank();
    for (int i = count - 1; i >= 0; --i)
      CHECK(me.take(named(peer, i)) == static_cast<float>(10 * peer + i));
  });
  CHECK(emulation::violations() == 0);
  CHECK(emulation::first_deadlock().empty());
}

TEST_CASE("without one order, transfers that cross stand still, and the cycle is named") {
  const emulation::test::session run;
  two_ranks ranks(order::own_first);
  ranks.run([&](two_ranks::end& me) {
    me.send(named(me.rank(), 0), 1);
    ranks.meet(); // both have offered
    me.commit_next();
    me.commit_next();
    CHECK(me.synchronize() == cudaErrorLaunchTimeout);
  });
  const auto said = emulation::first_deadlock();
  CHECK(said.find("a cycle of waits") != std::string::npos);
  CHECK(said.find("the send to rank 1 by rank 0 of 16 bytes") != std::string::npos);
  CHECK(said.find("the send to rank 0 by rank 1 of 16 bytes") != std::string::npos);
}

TEST_CASE("a receive does not wait for what its device was given to compute since the last one") {
  const emulation::test::session run(emulation::schedule::lazy); // runs what is waited for, only
  two_ranks ranks(order::total);
  ranks.run([&](two_ranks::end& me) {
    const auto pass = [&](int micro_batch) {
      if (me.rank() == 0)
        me.send(named(0, micro_batch), static_cast<float>(micro_batch));
      me.commit_next();
      if (me.rank() == 1)
        me.wait_for_arrivals(micro_batch + 1);
    };
    pass(0);
    if (me.rank() == 1) {
      CHECK_FALSE(me.computes_during([&] { pass(1); }));
      CHECK(me.take(named(0, 0)) == 0);
      CHECK(me.take(named(0, 1)) == 1);
    } else {
      pass(1);
    }
  });
  CHECK(emulation::violations() == 0);
}

TEST_CASE("what an aborted step left under way moves, and is dropped") {
  const emulation::test::session run;
  two_ranks ranks(order::total);
  ranks.run([&](two_ranks::end& me) {
    if (me.rank() == 0)
      me.send(named(0, 0, 1), 5);
    ranks.meet();
    me.forget(1);
    me.commit_next();
    if (me.rank() == 0)
      me.send(named(0, 0, 2), 6);
    me.commit_next();
    if (me.rank() == 1) {
      me.wait_for_arrivals(1);
      CHECK_THROWS_AS(me.take(named(0, 0, 1)), std::logic_error);
      CHECK(me.take(named(0, 0, 2)) == 6);
    }
  });
  CHECK(emulation::violations() == 0);
}

TEST_CASE(
  "a rank whose peer never comes gives up after the deadline, and says what it waited for") {
  const emulation::test::session run;
  two_ranks ranks(order::total, std::chrono::milliseconds(100));
  two_ranks::end alone(ranks, 0);
  CHECK_THROWS_WITH_AS(alone.open(),
                       "joining the communicator: NCCL has not begun with it after 100 ms; rank 0 "
                       "of 2 waits for its peers",
                       std::runtime_error);
}

TEST_CASE(
  "two ranks on one GPU are refused by name, and nobody waits for them beyond the deadline") {
  const emulation::test::session run;
  net::nccl_options options;
  options.gpu_ranks = {0, 1};
  options.others = net::make_local_network(3);
  options.deadline = std::chrono::milliseconds(200);
  const auto network = net::make_nccl_network(std::move(options));
  std::array<std::string, 2> errors;
  const auto open = [&](std::int32_t rank) {
    kernels::stream on(std::make_shared<kernels::cuda::device>(0));
    auto& end = network->at(rank);
    end.listen({.arrived = [](const net::transfer&) {}});
    try {
      end.open(on);
    } catch (const std::exception& problem) {
      errors[static_cast<std::size_t>(rank)] = problem.what();
    }
    end.close();
  };
  std::thread other(open, 1);
  open(0);
  other.join();
  const auto refused = [](const std::string& error) {
    return error
        == "ranks 0 and 1 are both on cuda:0, and NCCL takes a GPU for each rank: give each its "
           "own, or leave NCCL out, so that stages hand tensors over";
  };
  const auto waited = [](const std::string& error) {
    return error.starts_with("joining the communicator: NCCL has not begun with it after 200 ms");
  };
  CAPTURE(errors[0]);
  CAPTURE(errors[1]);
  CHECK((refused(errors[0]) || refused(errors[1])));
  CHECK((waited(errors[0]) || waited(errors[1])));
  CHECK(emulation::violations() == 0);
}
