#include "cli/status_command.hpp"

#include <memory>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "actors/crew.hpp"
#include "cli/atomic_file.hpp"
#include "cli/failure.hpp"
#include "cli/host_options.hpp"
#include "cli/option_checks.hpp"
#include "cli/table.hpp"

namespace sluice::cli {

namespace {

struct status_options {
  std::vector<std::string> workers;
  meeting_options meeting;
  double wait = 2; ///< seconds
  std::string json;
};

std::string state_of(const actors::roll_entry& of) {
  if (!of.problem.empty())
    return of.problem;
  if (of.offer.holder.empty())
    return "free";
  return fmt::format("stages {} of {}", fmt::join(of.offer.ranks, ", "), of.offer.holder);
}

std::vector<std::string> devices_of(const actors::roll_entry& of) {
  if (!of.problem.empty())
    return {};
  return of.offer.devices.empty() ? std::vector<std::string>{"cpu"} : of.offer.devices;
}

nlohmann::json to_json(const std::vector<actors::roll_entry>& roll) {
  auto all = nlohmann::json::array();
  for (const auto& each : roll) {
    const bool there = each.problem.empty();
    all.push_back({{"address", each.address},
                   {"there", there},
                   {"free", there && each.offer.holder.empty()},
                   {"name", each.offer.name},
                   {"slots", each.offer.stages},
                   {"devices", devices_of(each)},
                   {"holder", each.offer.holder},
                   {"stages", each.offer.ranks},
                   {"arithmetic", each.offer.arithmetic},
                   {"problem", each.problem}});
  }
  return {{"workers", all}};
}

void show(const std::vector<actors::roll_entry>& roll) {
  table shown({"worker", "process", "slots", "devices", "state"});
  for (const auto& each : roll)
    shown.add({each.address, each.offer.name,
               each.problem.empty() ? fmt::format("{}", each.offer.stages) : "",
               fmt::format("{}", fmt::join(devices_of(each), ", ")), state_of(each)});
  fmt::print("{}", shown.text());
}

int run_status(const status_options& options) {
  actors::crew crew(
    {.workers = checked_workers(options.workers), .hosts = options.meeting.hosts()});
  const auto roll = crew.call(actors::call_for::presence, milliseconds_of(options.wait));
  const auto text = to_json(roll).dump(2) + "\n";
  if (options.json == "-")
    fmt::print("{}", text);
  else
    show(roll);
  if (!options.json.empty() && options.json != "-")
    write_atomically(options.json, text);
  for (const auto& each : roll)
    if (!each.problem.empty())
      return exit_code::failure;
  return exit_code::success;
}

} // namespace

void add_status_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<status_options>();
  auto* command = app.add_subcommand("status", "show which workers are there and who has them");
  command->footer("Example:\n  sluice status --workers 127.0.0.1:4711,127.0.0.1:4712");
  command->option_defaults()->always_capture_default();
  command->add_option("--workers", options->workers, "the workers to ask")
    ->type_name("HOST:PORT,...")
    ->delimiter(',')
    ->required();
  add_meeting_options(*command, options->meeting);
  command->add_option("--wait", options->wait, "seconds to wait for those that do not answer")
    ->type_name("SECONDS")
    ->check(positive_number());
  command->add_option("--json", options->json, "the same as JSON; -: on standard output [none]")
    ->type_name("FILE");
  command->callback([options, &exit_code] { exit_code = run_status(*options); });
}

} // namespace sluice::cli
