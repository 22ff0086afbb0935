#include "actors/recruiter.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "actors/run_edges.hpp"
#include "actors/sequencer.hpp"
#include "actors/text_of.hpp"
#include "actors/worker.hpp"
#include "net/tcp/address.hpp"

namespace sluice::actors {

recruiter_state::recruiter_state(caf::event_based_actor* self) : self_(self) {}

caf::behavior recruiter_state::make_behavior() {
  return compat::ignoring_errors(
    self_, [this](const hire& message) { return on_hire(message); },
    [this](const dismiss&) { return on_dismiss(); },
    [this](const connections_made& message) {
      if (!hiring_.pending() || message.token != token_bytes_)
        return;
      if (message.problem.empty())
        one_less();
      else
        fail(message.problem);
    });
}

// -- hiring ------------------------------------------------------------------------------------

caf::result<hired> recruiter_state::on_hire(const hire& message) {
  order_ = message.order;
  token_ = net::make_run_token();
  token_bytes_.clear();
  for (const auto each : token_)
    token_bytes_.push_back(std::to_integer<std::uint8_t>(each));
  contracts_.clear();
  for (std::size_t rank = 0; rank < order_->placement.size(); ++rank) {
    const auto* worker = order_->placement[rank];
    if (worker == nullptr)
      continue;
    auto found = std::ranges::find(contracts_, worker, &contract::worker);
    if (found == contracts_.end())
      found = contracts_.insert(found, {worker, {}});
    found->ranks.push_back(static_cast<std::int32_t>(rank));
  }
  stages_.assign(order_->placement.size(), {});
  try {
    order_gpus();
  } catch (const std::invalid_argument& why) {
    return caf::make_error(unusable, std::string(why.what()));
  }
  hiring_ = self_->make_response_promise();
  for (std::size_t i = 0; i < contracts_.size(); ++i)
    watcher_.watch(self_, contracts_[i].worker->actor,
                   [this, i](const caf::error& reason) { worker_gone(i, reason); });
  request_leases();
  return caf::delegated<hired>{};
}

/// Which ranks are on GPUs, and who puts their transfers into one order, where NCCL is wanted and
/// has something to carry. Errors: std::invalid_argument for two ranks on one GPU.
void recruiter_state::order_gpus() {
  gpus_ = {};
  if (!order_->nccl)
    return;
  for (auto& each : contracts_) {
    const auto& devices = each.worker->offer.devices;
    each.gpu_ranks.clear();
    if (devices.empty())
      continue;
    if (each.ranks.size() > devices.size())
      throw std::invalid_argument(fmt::format(
        "NCCL wants a GPU for each stage: the worker {} has {} for {} stages; give it fewer by "
        "--placement, or leave --nccl out",
        each.worker->address, devices.size(), each.ranks.size()));
    each.gpu_ranks = each.ranks;
    gpus_.ranks.insert(gpus_.ranks.end(), each.ranks.begin(), each.ranks.end());
  }
  std::ranges::sort(gpus_.ranks);
  if (gpus_.ranks.size() < 2) {
    gpus_.ranks.clear();
    return;
  }
  gpus_.sequencer = spawn_sequencer(self_->system());
  self_->link_to(gpus_.sequencer); // It ends with this actor.
}

void recruiter_state::request_leases() {
  unanswered_ = contracts_.size();
  all_answered_ = [this] { start_run_everywhere(); };
  for (std::size_t i = 0; i < contracts_.size(); ++i) {
    const auto& each = contracts_[i];
    // One of the workers on GPUs makes what all of them meet by.
    const bool makes_id = !gpus_.ranks.empty() && !each.gpu_ranks.empty()
                       && each.gpu_ranks.front() == gpus_.ranks.front();
    lease_request request{.token = token_bytes_,
                          .owner = caf::actor_cast<caf::actor>(self_),
                          .holder = name_of_this_process(),
                          .recipe = order_->recipe,
                          .ranks = each.ranks,
                          .silence_ms = order_->silence.count(),
                          .checksum = order_->checksum,
                          .make_gpu_id = makes_id};
    compat::ask(self_, each.worker->actor, order_->deadline, std::move(request))
      .then(
        [this, i](const lease_grant& answer) {
          contracts_[i].tensor_port = answer.tensor_port;
          if (!answer.gpu_id.empty())
            gpus_.id = answer.gpu_id;
          if (answer.busy.empty())
            one_less();
          else
            fail(
              fmt::format("the worker {} is busy: {}", contracts_[i].worker->address, answer.busy));
        },
        [this, i](const caf::error& why) {
          fail(fmt::format("the worker {} grants no lease: {}", contracts_[i].worker->address,
                           text_of(why)));
        });
  }
  if (unanswered_ == 0)
    start_run_everywhere();
}

/// Where each rank that is not this worker's is reached from there.
std::map<std::int32_t, std::string> recruiter_state::peers_of(const contract& of) const {
  std::map<std::int32_t, std::string> peers;
  const auto ranks = static_cast<std::int32_t>(order_->placement.size());
  for (std::int32_t rank = 0; rank <= ranks; ++rank)
    peers[rank] = order_->own_addresses.at(of.worker->address);
  for (const auto& each : contracts_)
    for (const auto rank : each.ranks)
      peers[rank] = beside(each.worker->address, each.tensor_port);
  for (const auto rank : of.ranks)
    peers.erase(rank);
  return peers;
}

void recruiter_state::start_run_everywhere() {
  net::tcp_run own{.token = token_,
                   .edges = run_edges(order_->recipe.plan, order_->shared),
                   .deadline = order_->deadline};
  const auto ranks = static_cast<std::int32_t>(order_->placement.size());
  for (std::int32_t rank = 0; rank <= ranks; ++rank)
    if (rank == ranks || order_->placement[static_cast<std::size_t>(rank)] == nullptr)
      own.hosted.push_back(rank);
  for (const auto& each : contracts_)
    for (const auto rank : each.ranks)
      own.peers[rank] = beside(each.worker->address, each.tensor_port);
  unanswered_ = contracts_.size() + 1;
  all_answered_ = [this] { everybody_started(); };
  for (const auto& each : contracts_)
    compat::ask(self_, each.worker->actor, 2 * order_->deadline,
                start_run{token_bytes_, peers_of(each), order_->deadline.count(), gpus_})
      .then([this, &each](const run_started& answer) { started(each, answer); },
            [this, &each](const caf::error& why) {
              fail(
                fmt::format("the worker {} did not start: {}", each.worker->address, text_of(why)));
            });
  order_->network->start(std::move(own), [to = caf::actor_cast<caf::actor>(self_),
                                          token = token_bytes_](const std::string& problem) {
    compat::anon_tell(to, connections_made{token, problem});
  });
}

void recruiter_state::started(const contract& by, const run_started& answer) {
  if (answer.stages.size() != by.ranks.size()) {
    fail(fmt::format("the worker {} started {} stages, not {}", by.worker->address,
                     answer.stages.size(), by.ranks.size()));
    return;
  }
  for (std::size_t i = 0; i < by.ranks.size(); ++i)
    stages_[static_cast<std::size_t>(by.ranks[i])] = answer.stages[i];
  one_less();
}

void recruiter_state::everybody_started() {
  for (const auto rank : gpus_.ranks)
    compat::tell(self_, gpus_.sequencer, sequenced_stage{rank},
                 stages_[static_cast<std::size_t>(rank)]);
  hiring_.deliver(hired{std::move(stages_)});
}

void recruiter_state::one_less() {
  if (hiring_.pending() && --unanswered_ == 0)
    all_answered_();
}

void recruiter_state::fail(const std::string& why) {
  if (hiring_.pending())
    hiring_.deliver(caf::make_error(unusable, why));
}

// -- letting go --------------------------------------------------------------------------------

caf::result<caf::unit_t> recruiter_state::on_dismiss() {
  fail("the workers were let go");
  dismissing_ = self_->make_response_promise();
  // A request to a worker that is gone would end by its time-out only.
  unreleased_ = 1;
  for (const auto& each : contracts_) {
    if (each.gone)
      continue;
    ++unreleased_;
    compat::ask(self_, each.worker->actor, order_->silence, end_lease{token_bytes_})
      .then(
        [this, &each](const lease_ended&) {
          if (!each.gone)
            one_released();
        },
        [this, &each](const caf::error&) {
          if (!each.gone)
            one_released();
        });
  }
  one_released();
  return caf::delegated<caf::unit_t>{};
}

void recruiter_state::one_released() {
  if (--unreleased_ == 0)
    dismissing_.deliver(caf::unit);
}

void recruiter_state::worker_gone(std::size_t which, const caf::error& reason) {
  auto& contract = contracts_[which];
  contract.gone = true;
  fail(fmt::format("the worker {} is gone ({})", contract.worker->address, caf::to_string(reason)));
  if (dismissing_.pending())
    one_released();
}

std::string beside(const std::string& address, std::uint16_t port) {
  auto at = net::parse_address(address);
  at.port = port;
  return net::to_string(at);
}

} // namespace sluice::actors
