#include "cli/launched_training.hpp"

#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/meeting.hpp"
#include "cli/failure.hpp"
#include "cli/launcher.hpp"
#include "cli/training.hpp"
#include "cli/worker_command.hpp"
#include "net/probe.hpp"

namespace sluice::cli {

namespace {

/// Launchers start their processes minutes apart.
constexpr std::chrono::seconds meeting_deadline{120};

constexpr std::int32_t most_stages = 4096;

launched_role own_role() {
  std::optional<launched_role> role;
  try {
    role = role_of([](const std::string& name) -> std::optional<std::string> {
      const char* value = std::getenv(name.c_str());
      return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    });
  } catch (const std::invalid_argument& problem) {
    throw usage_error(fmt::format("--from-environment: {}", problem.what()));
  }
  if (!role)
    throw usage_error(
      "--from-environment: neither torchrun, Open MPI, Slurm nor Kubernetes has set "
      "its variables (RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, by hand)");
  return *role;
}

/// Whether all of the run is on this host.
bool is_near(const net::address& meeting, const actors::host_options& hosts) {
  bool near = false;
  try {
    near = net::is_this_host_only(meeting);
  } catch (const std::runtime_error& problem) {
    throw usage_error(fmt::format("--from-environment: {}", problem.what()));
  }
  if (!near && !hosts.tls)
    throw usage_error(fmt::format("--from-environment: the processes meet at {}, where other hosts "
                                  "can connect, so certificates are needed: give --tls-ca, "
                                  "--tls-cert and --tls-key",
                                  net::to_string(meeting)));
  return near;
}

int lead(const launched_role& role, train_options options, const CLI::App& given) {
  const auto hosts = options.hosts.meeting.hosts();
  net::address at{role.meeting_host, role.meeting_port, {}};
  if (!is_near(at, hosts))
    at.host = "0.0.0.0";
  actors::meeting_place place(hosts, at, role.processes);
  std::vector<std::string> places{"local"};
  for (auto& each : place.wait_for_all(meeting_deadline))
    places.push_back(std::move(each));
  if (given.get_option("--stages")->count() == 0)
    options.how.stages = role.processes;
  options.hosts.placement = place_in_blocks(places, options.how.stages);
  const int code = train(std::move(options), given);
  place.end(code == exit_code::success ? "" : fmt::format("rank 0 has ended with code {}", code));
  return code;
}

int follow(const launched_role& role, const train_options& options) {
  const auto meeting = options.hosts.meeting.hosts();
  const net::address at{role.meeting_host, role.meeting_port, {}};
  is_near(at, meeting);
  const auto host = net::local_host_towards(at);
  actors::host_system hosts(meeting);
  const actors::scoped_worker worker(hosts.system(), worker_offer_of(meeting, host, most_stages));
  const auto port = hosts.publish(worker.actor(), {host, 0, {}});
  const auto why =
    actors::attend(hosts, at, role.rank, net::to_string({host, port, {}}), meeting_deadline);
  if (!why.empty())
    throw std::runtime_error(fmt::format("rank {}: {}", role.rank, why));
  return exit_code::success;
}

} // namespace

int train_launched(train_options options, const CLI::App& given) {
  if (options.hosts.given())
    throw usage_error(
      "--from-environment finds the workers itself: leave --workers and --placement "
      "out");
  const auto role = own_role();
  spdlog::info("started by {} as rank {} of {}", role.launcher, role.rank, role.processes);
  return role.rank == 0 ? lead(role, std::move(options), given) : follow(role, options);
}

} // namespace sluice::cli
