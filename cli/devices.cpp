#include "cli/devices.hpp"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/emulation.hpp"
#include "cli/atomic_file.hpp"
#include "cli/failure.hpp"
#include "kernels/arithmetic.hpp"

namespace sluice::cli {

namespace {

void check_one(const std::string& device) {
  if (device == "cpu")
    return;
  if (actors::is_emulated(device))
    throw usage_error(fmt::format("--device {}: an emulated device stands for all stages and is "
                                  "not mixed with others; give it alone",
                                  device));
  if (device.starts_with("cuda"))
    throw usage_error(
      fmt::format("--device {}: this build has no CUDA; stages run on cpu", device));
  throw usage_error(fmt::format("--device {}: not a device; there are cpu and emulated (see "
                                "`sluice devices`)",
                                device));
}

struct found_device {
  std::string name;
  bool usable;
  std::string what;
};

std::vector<found_device> all_devices() {
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  return {{"cpu", true,
           fmt::format("{} core{}, {}", cores, cores == 1 ? "" : "s", kernels::arithmetic())},
          {"emulated", true,
           "tasks that take time without computing: emulated:F=10ms:B=10ms:W=10ms:jitter="
           "lognormal/0.3:slow=0.1x4:seed=7"},
          {"cuda", false, "not in this build"}};
}

void list_devices(const std::string& json) {
  const auto found = all_devices();
  auto all = nlohmann::json::array();
  for (const auto& each : found) {
    if (json != "-")
      fmt::print("{:<10}{}\n", each.name, each.what);
    all.push_back({{"name", each.name}, {"usable", each.usable}, {"what", each.what}});
  }
  const auto text = nlohmann::json{{"devices", all}}.dump(2) + "\n";
  if (json == "-")
    fmt::print("{}", text);
  else if (!json.empty())
    write_atomically(json, text);
}

} // namespace

void check_devices(const std::string& devices, int stages) {
  int count = 0;
  for (std::size_t begin = 0; begin <= devices.size(); ++count) {
    const auto end = std::min(devices.find(',', begin), devices.size());
    check_one(devices.substr(begin, end - begin));
    begin = end + 1;
  }
  if (count != 1 && count != stages)
    throw usage_error(fmt::format("--device {}: {} devices for {} stages; give one for all or one "
                                  "for each",
                                  devices, count, stages));
}

void add_devices_command(CLI::App& app) {
  auto json = std::make_shared<std::string>();
  auto* command = app.add_subcommand("devices", "list the devices that stages can run on");
  command->footer("Example:\n  sluice devices");
  command->add_option("--json", *json, "the list as JSON; - for standard output [none]");
  command->callback([json] { list_devices(*json); });
}

} // namespace sluice::cli
