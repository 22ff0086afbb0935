#include "actors/worker.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "actors/make_stage.hpp"
#include "actors/run_edges.hpp"
#include "kernels/arithmetic.hpp"
#include "net/tcp/address.hpp"

namespace sluice::actors {

/// What a trainer has here, from its request to the end of the last stage.
struct worker_state::lease {
  std::vector<std::uint8_t> token;
  std::string holder;
  stage_recipe recipe;
  std::vector<std::int32_t> ranks;
  model_layout layout;
  std::shared_ptr<net::tcp_network> network;
  gpu_order gpus = {}; ///< by NCCL
  std::vector<caf::actor> stages;
  std::size_t living = 0; ///< stages
  caf::response_promise start = {};
  std::vector<caf::response_promise> ends = {};
  std::string ending = {}; ///< why; empty: it is not ending
};

namespace {

net::run_token token_of(const std::vector<std::uint8_t>& bytes) {
  net::run_token token{};
  if (bytes.size() != token.size())
    throw std::invalid_argument(
      fmt::format("a token of {} bytes, not {}", bytes.size(), token.size()));
  std::ranges::transform(bytes, token.begin(), [](auto byte) { return std::byte{byte}; });
  return token;
}

void check_ranks(const lease_request& asked, std::int32_t offered) {
  const std::set<std::int32_t> once(asked.ranks.begin(), asked.ranks.end());
  if (asked.ranks.empty() || once.size() != asked.ranks.size())
    throw std::invalid_argument(
      fmt::format("asked to host the ranks [{}]: at least one, each once, is needed",
                  fmt::join(asked.ranks, ", ")));
  if (*once.begin() < 0 || *once.rbegin() >= asked.recipe.plan.ranks)
    throw std::invalid_argument(fmt::format("asked to host the ranks [{}] of a plan for {}",
                                            fmt::join(asked.ranks, ", "), asked.recipe.plan.ranks));
  if (static_cast<std::int64_t>(once.size()) > offered)
    throw std::invalid_argument(
      fmt::format("asked for {} stages, but it hosts {} at most: give it fewer by --placement, or "
                  "start it with --slots {}",
                  once.size(), offered, once.size()));
}

void check_gpus(const gpu_order& order, std::int32_t ranks) {
  const std::set<std::int32_t> once(order.ranks.begin(), order.ranks.end());
  const bool sorted = std::ranges::equal(once, order.ranks);
  if (!sorted || (sorted && !once.empty() && (*once.begin() < 0 || *once.rbegin() >= ranks)))
    throw std::invalid_argument(
      fmt::format("the ranks [{}] on GPUs, of a plan for {}", fmt::join(order.ranks, ", "), ranks));
  if (!once.empty() && !order.sequencer)
    throw std::invalid_argument("GPUs without a sequencer");
  // Without one NCCL would make it, and wait for peers that have another.
  if (!once.empty() && order.id.empty())
    throw std::invalid_argument("GPUs without the identifier that NCCL's processes meet by");
}

caf::error refusal(const std::exception& why) {
  return caf::make_error(caf::sec::invalid_argument, std::string(why.what()));
}

} // namespace

worker_state::worker_state(caf::event_based_actor* self,
                           std::shared_ptr<const worker_config> config)
  : self_(self),
    config_(std::move(config)) {}

/// The stages do not outlive their worker.
worker_state::~worker_state() {
  if (lease_)
    for (const auto& stage : lease_->stages)
      caf::anon_send_exit(stage, caf::exit_reason::user_shutdown);
}

caf::behavior worker_state::make_behavior() {
  // What fails on the way to a peer that is gone must not end the worker.
  return compat::ignoring_errors(
    self_, [this](const worker_hello& message) { return on_hello(message); },
    [this](const lease_request& message) { return on_request(message); },
    [this](const start_run& message) { return on_start(message); },
    [this](const end_lease& message) { return on_end(message); },
    [this](const connections_made& message) { on_connections(message); });
}

caf::result<worker_offer> worker_state::on_hello(const worker_hello& message) {
  if (message.version != control_version)
    return caf::make_error(
      caf::sec::invalid_argument,
      fmt::format("it speaks version {} of the control protocol, not {}: run the same version of "
                  "Sluice everywhere",
                  control_version, message.version));
  const auto now = self_->clock().now().time_since_epoch();
  return worker_offer{
    .name = config_->name,
    .stages = config_->stages,
    .devices = config_->devices,
    .arithmetic = kernels::arithmetic(),
    .holder = lease_ ? lease_->holder : std::string{},
    .ranks = lease_ ? lease_->ranks : std::vector<std::int32_t>{},
    .now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
  };
}

// -- a lease -----------------------------------------------------------------------------------

caf::result<lease_grant> worker_state::on_request(const lease_request& message) {
  if (lease_)
    return lease_grant{.busy =
                         fmt::format("it is leased to {}{}", lease_->holder,
                                     lease_->ending.empty() ? "" : ", whose stages are ending")};
  std::vector<std::uint8_t> gpu_id;
  try {
    auto made = make_lease(message);
    if (message.make_gpu_id)
      gpu_id = nccl().make_id();
    lease_ = std::move(made);
  } catch (const std::exception& why) {
    log(fmt::format("refused {}: {}", message.holder, why.what()));
    return refusal(why);
  }
  watcher_.watch(self_, message.owner, [this, token = message.token](const caf::error& reason) {
    if (holds(token))
      end(fmt::format("its owner is gone ({})", caf::to_string(reason)));
  });
  log(fmt::format("leased to {}: rank{} {} of {} under {}", lease_->holder,
                  lease_->ranks.size() == 1 ? "" : "s", fmt::join(lease_->ranks, ", "),
                  lease_->recipe.plan.ranks, lease_->recipe.plan.schedule));
  return lease_grant{.tensor_port = net::parse_address(lease_->network->address()).port,
                     .gpu_id = std::move(gpu_id)};
}

const net::gpu_channels& worker_state::nccl() const {
  if (!config_->gpus.make_id || config_->devices.empty())
    throw std::invalid_argument("it has no GPUs, or was built without NCCL");
  return config_->gpus;
}

std::unique_ptr<worker_state::lease> worker_state::make_lease(const lease_request& message) const {
  token_of(message.token);
  if (!message.owner)
    throw std::invalid_argument("the request has no owner");
  check_recipe(message.recipe);
  check_ranks(message, config_->stages);
  auto made = std::make_unique<lease>();
  made->token = message.token;
  made->holder = message.holder.substr(0, 200);
  made->recipe = message.recipe;
  made->ranks = message.ranks;
  made->layout = lay_out(made->recipe, config_->models);
  auto options = config_->tensors;
  options.checksum = message.checksum;
  options.silence =
    std::chrono::milliseconds(std::clamp<std::int64_t>(message.silence_ms, 0, 3'600'000));
  made->network = std::make_shared<net::tcp_network>(std::move(options));
  return made;
}

caf::result<run_started> worker_state::on_start(const start_run& message) {
  if (!holds(message.token) || !lease_->ending.empty())
    return caf::make_error(caf::sec::invalid_argument, "it is not leased to this run");
  if (lease_->start.pending() || !lease_->stages.empty())
    return caf::make_error(caf::sec::invalid_argument, "the run has been started already");
  try {
    check_gpus(message.gpus, lease_->recipe.plan.ranks);
    lease_->gpus = message.gpus;
    const auto deadline = std::clamp<std::int64_t>(message.deadline_ms, 1, 3'600'000);
    lease_->network->start(
      {.token = token_of(message.token),
       .hosted = lease_->ranks,
       .peers = message.peers,
       .edges = run_edges(lease_->recipe.plan, lease_->layout.shared),
       .deadline = std::chrono::milliseconds(deadline)},
      [to = caf::actor_cast<caf::actor>(self_), token = message.token](const std::string& problem) {
        compat::anon_tell(to, connections_made{token, problem});
      });
  } catch (const std::exception& why) {
    return refusal(why);
  }
  lease_->start = self_->make_response_promise();
  return caf::delegated<run_started>{};
}

void worker_state::on_connections(const connections_made& message) {
  if (!holds(message.token) || !lease_->start.pending())
    return;
  if (!message.problem.empty()) {
    lease_->start.deliver(caf::make_error(caf::sec::runtime_error, message.problem));
    return; // The owner ends the lease.
  }
  try {
    start_stages();
  } catch (const std::exception& why) {
    lease_->start.deliver(refusal(why));
    return;
  }
  lease_->start.deliver(run_started{lease_->stages});
}

/// The channels of this worker's ranks: sockets, and NCCL for those on GPUs if the order says so.
std::shared_ptr<net::network> worker_state::channels() const {
  const auto& gpus = lease_->gpus;
  const bool by_nccl = std::ranges::any_of(
    lease_->ranks, [&](auto rank) { return std::ranges::binary_search(gpus.ranks, rank); });
  if (!by_nccl)
    return lease_->network;
  auto made = nccl().connect({gpus.ranks, gpus.id, lease_->network});
  made->order_by(
    [to = gpus.sequencer](const net::offer& what) { compat::anon_tell(to, transfer_ready{what}); });
  return made;
}

std::shared_ptr<kernels::device> worker_state::device_of(std::int32_t rank) const {
  const auto& names = config_->devices;
  if (names.empty())
    return kernels::make_cpu_device();
  const auto place = std::ranges::find(lease_->ranks, rank) - lease_->ranks.begin();
  return config_->open_device(names[static_cast<std::size_t>(place) % names.size()]);
}

void worker_state::start_stages() {
  const auto& recipe = lease_->recipe;
  const stage_materials materials{.training = recipe.plan,
                                  .optimizer = make_optimizer(recipe.optimizer),
                                  .network = channels(),
                                  .device = [this](auto rank) { return device_of(rank); },
                                  .threads = recipe.threads,
                                  .memory_bytes = recipe.memory_bytes};
  for (const auto rank : lease_->ranks) {
    lease_->stages.push_back(spawn_stage(
      self_->system(), make_stage(rank, materials, lease_->layout), config_->detached_stages));
    ++lease_->living;
    watcher_.watch(self_, lease_->stages.back(), [this, token = lease_->token](const caf::error&) {
      if (holds(token))
        stage_ended();
    });
  }
}

// -- the end of a lease ------------------------------------------------------------------------

caf::result<lease_ended> worker_state::on_end(const end_lease& message) {
  if (!holds(message.token))
    return lease_ended{};
  auto promise = self_->make_response_promise();
  lease_->ends.push_back(promise);
  if (lease_->ending.empty())
    end("its owner has ended it");
  return caf::delegated<lease_ended>{};
}

void worker_state::end(const std::string& why) {
  if (!lease_->ending.empty())
    return;
  lease_->ending = why;
  if (lease_->start.pending())
    lease_->start.deliver(caf::make_error(caf::sec::runtime_error, "the lease has ended"));
  for (const auto& stage : lease_->stages)
    self_->send_exit(stage, caf::exit_reason::user_shutdown);
  if (lease_->living == 0)
    finish_end();
}

void worker_state::stage_ended() {
  --lease_->living;
  if (lease_->living == 0 && !lease_->ending.empty())
    finish_end();
}

void worker_state::finish_end() {
  auto ended = std::move(lease_);
  ended->network.reset(); // Its sockets are closed before anyone hears of it.
  log(fmt::format("free again: the lease of {} has ended, {}", ended->holder, ended->ending));
  for (auto& each : ended->ends)
    each.deliver(lease_ended{});
}

bool worker_state::holds(const std::vector<std::uint8_t>& token) const {
  return lease_ && lease_->token == token;
}

void worker_state::log(const std::string& line) const {
  if (config_->log)
    config_->log(line);
}

caf::actor spawn_worker(caf::actor_system& system, std::shared_ptr<const worker_config> config,
                        bool detached) {
  using worker_actor = caf::stateful_actor<worker_state>;
  return detached ? system.spawn<worker_actor, caf::detached>(std::move(config))
                  : system.spawn<worker_actor>(std::move(config));
}

scoped_worker::scoped_worker(caf::actor_system& system, std::shared_ptr<const worker_config> config)
  : system_(system),
    actor_(spawn_worker(system, std::move(config))) {}

scoped_worker::~scoped_worker() {
  caf::scoped_actor self{system_};
  self->send_exit(actor_, caf::exit_reason::user_shutdown);
  self->wait_for(actor_);
}

std::string name_of_this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}, process {}", host.data(), ::getpid());
}

} // namespace sluice::actors
