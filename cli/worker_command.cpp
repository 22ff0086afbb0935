#include "cli/worker_command.hpp"

#include <memory>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/worker.hpp"
#include "cli/devices.hpp"
#include "cli/failure.hpp"
#include "cli/gpus.hpp"
#include "cli/host_options.hpp"
#include "cli/option_checks.hpp"
#include "net/probe.hpp"

namespace sluice::cli {

namespace {

struct worker_options {
  std::string listen = "127.0.0.1:4711";
  std::int32_t slots = 16;
  std::string device = "cpu";
  bool quiet = false;
  meeting_options meeting;
};

net::address checked_address(const worker_options& options, bool with_tls) {
  net::address at;
  try {
    at = net::parse_address(options.listen);
  } catch (const std::invalid_argument& problem) {
    throw usage_error(fmt::format("--listen: {}", problem.what()));
  }
  if (at.is_unix())
    throw usage_error("--listen: a host and a port are needed");
  bool near = false;
  try {
    near = net::is_this_host_only(at);
  } catch (const std::runtime_error& problem) {
    throw usage_error(fmt::format("--listen {}", problem.what()));
  }
  if (!with_tls && !near)
    throw usage_error(fmt::format(
      "--listen {}: other hosts could connect there, so certificates are needed: give --tls-ca, "
      "--tls-cert and --tls-key, or listen on 127.0.0.1",
      options.listen));
  return at;
}

/// Waits for SIGINT or SIGTERM.
void wait_until_stopped() {
  boost::asio::io_context io;
  boost::asio::signal_set stopping(io, SIGINT, SIGTERM);
  stopping.async_wait([](const auto&, int) {});
  io.run();
}

int run_worker(const worker_options& options) {
  const auto meeting = options.meeting.hosts();
  const auto at = checked_address(options, meeting.tls.has_value());
  if (options.quiet)
    spdlog::set_level(spdlog::level::warn);
  const auto offer = worker_offer_of(meeting, at.host, options.slots);
  offer->devices = check_offered_devices(options.device);
  actors::host_system hosts(meeting);
  const actors::scoped_worker worker(hosts.system(), offer);
  const auto port = hosts.publish(worker.actor(), at);
  fmt::print("listening on {}\n", net::to_string({at.host, port, {}}));
  std::fflush(stdout);
  wait_until_stopped();
  return exit_code::success;
}

} // namespace

std::shared_ptr<actors::worker_config>
worker_offer_of(const actors::host_options& meeting, const std::string& host, std::int32_t slots) {
  auto config = std::make_shared<actors::worker_config>();
  config->name = actors::name_of_this_process();
  config->stages = slots;
  config->open_device = open_device;
  config->gpus = gpu_channels();
  config->tensors.listen = net::to_string({host, 0, {}});
  config->tensors.tls = meeting.tls;
  config->tensors.log = [](const std::string& line) { spdlog::warn("tensor port: {}", line); };
  config->log = [](const std::string& line) { spdlog::info("{}", line); };
  return config;
}

void add_worker_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<worker_options>();
  auto* command =
    app.add_subcommand("worker", "host stages for trainers in other processes, one at a time");
  command->footer("Example:\n  sluice worker --listen 127.0.0.1:4711");
  command->option_defaults()->always_capture_default();
  command->add_option("--listen", options->listen, "where trainers connect; port 0: any free one")
    ->type_name("HOST:PORT");
  command->add_option("--slots", options->slots, "stages that it hosts at once")
    ->type_name("N")
    ->check(whole_number(1, 4096));
  command->add_option("--device", options->device,
                      "of its stages: cpu, or GPUs that they get in turn: cuda:0,cuda:1");
  command->add_flag("--quiet", options->quiet, "log only what is wrong");
  add_meeting_options(*command, options->meeting);
  command->callback([options, &exit_code] { exit_code = run_worker(*options); });
}

} // namespace sluice::cli
