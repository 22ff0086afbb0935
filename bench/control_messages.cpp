#include "bench/control_messages.hpp"

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "actors/host_system.hpp"
#include "actors/messages.hpp"
#include "bench/rounds.hpp"

namespace sluice::bench {

namespace {

using clock = std::chrono::steady_clock;
using actors::describe;
using actors::description;

caf::behavior stage_that_describes() {
  return {[](const describe& message) {
    return description{message.epoch, 1, 17, "F4 of chunk 0 on rank 1 needs a credit"};
  }};
}

/// Asks so many times, `under_way` at a time; then says how long that took, and ends.
class asking_state {
public:
  struct order {
    caf::actor whom;
    std::size_t questions = 0;
    std::size_t under_way = 1;
    std::promise<double> seconds = {};
  };

  asking_state(caf::event_based_actor* self, std::shared_ptr<order> what)
    : self_(self),
      order_(std::move(what)) {}

  caf::behavior make_behavior() {
    begun_ = clock::now();
    for (std::size_t i = 0; i < order_->under_way; ++i)
      ask();
    return {[this](const description&) { on_answer(); }};
  }

private:
  void ask() {
    if (asked_ < order_->questions)
      actors::compat::tell(self_, order_->whom, describe{++asked_});
  }

  void on_answer() {
    ask();
    if (++answered_ < order_->questions)
      return;
    order_->seconds.set_value(std::chrono::duration<double>(clock::now() - begun_).count());
    self_->quit();
  }

  caf::event_based_actor* self_;
  std::shared_ptr<order> order_;
  clock::time_point begun_;
  std::uint64_t asked_ = 0;
  std::uint64_t answered_ = 0;
};

/// A question and its answer are two messages.
double messages_per_second(caf::actor_system& from, const caf::actor& to, std::size_t questions,
                           std::size_t under_way) {
  auto what = std::make_shared<asking_state::order>();
  what->whom = to;
  what->questions = questions;
  what->under_way = under_way;
  auto seconds = what->seconds.get_future();
  from.spawn<caf::stateful_actor<asking_state>>(what);
  constexpr std::chrono::seconds patience{60};
  if (seconds.wait_for(patience) != std::future_status::ready)
    throw std::runtime_error("control messages: no answer within a minute");
  return 2 * static_cast<double>(questions) / seconds.get();
}

/// Two actor systems that are connected, and the same stage in the asking one.
class pair {
public:
  explicit pair(const actors::host_options& options) : asks_(options), answers_(options) {
    far_ = answers_.system().spawn(stage_that_describes);
    near_ = asks_.system().spawn(stage_that_describes);
    net::address at{"127.0.0.1", 0, {}};
    at.port = answers_.publish(far_, at);
    proxy_ = asks_.dial(at, std::chrono::seconds{10});
  }
  ~pair() {
    caf::anon_send_exit(far_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(near_, caf::exit_reason::user_shutdown);
  }
  pair(const pair&) = delete;
  pair& operator=(const pair&) = delete;

  double across(std::size_t questions, std::size_t under_way) {
    return messages_per_second(asks_.system(), proxy_, questions, under_way);
  }
  double within(std::size_t questions, std::size_t under_way) {
    return messages_per_second(asks_.system(), near_, questions, under_way);
  }

private:
  actors::host_system asks_;
  actors::host_system answers_;
  caf::actor far_;
  caf::actor near_;
  caf::actor proxy_;
};

void measure(pair& between, const std::string& how, std::size_t rounds,
             std::vector<measurement>& into) {
  for (const std::size_t under_way : {1, 64}) {
    const std::size_t questions = under_way == 1 ? 2000 : 20'000;
    series across{fmt::format("control messages{}, {} under way", how, under_way)};
    series within{"in one process"};
    between.across(questions / 10, under_way); // The first ones find caches and buffers cold.
    for (std::size_t round = 0; round < rounds; ++round) {
      across.by_round.push_back(between.across(questions, under_way));
      within.by_round.push_back(between.within(questions, under_way));
    }
    into.push_back(compare(across, "messages/s", within));
  }
}

} // namespace

std::vector<measurement> measure_control_messages(const workshop& in, std::size_t rounds) {
  std::vector<measurement> lines;
  {
    pair plain({});
    measure(plain, "", rounds, lines);
  }
  if (in.has_tls()) {
    pair with_tls({.tls = in.tls()});
    measure(with_tls, " over TLS", rounds, lines);
  }
  return lines;
}

} // namespace sluice::bench
