#include "cli/devices.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/emulation.hpp"
#include "cli/atomic_file.hpp"
#include "cli/failure.hpp"
#include "cli/gpus.hpp"
#include "kernels/arithmetic.hpp"

namespace sluice::cli {

namespace {

/// The number in "cuda:3". Errors: usage_error.
int index_of_gpu(const std::string& device) {
  int index = -1;
  const auto* end = device.data() + device.size();
  const auto read = device.starts_with("cuda:")
                    ? std::from_chars(device.data() + 5, end, index)
                    : std::from_chars_result{device.data(), std::errc::invalid_argument};
  if (read.ec != std::errc{} || read.ptr != end || index < 0)
    throw usage_error(
      fmt::format("--device {}: write the number of the GPU, as in cuda:0", device));
  return index;
}

void check_gpu(const std::string& device) {
  const auto index = index_of_gpu(device);
  const auto gpus = list_gpus();
  if (gpus.found.empty())
    throw usage_error(fmt::format("--device {}: {}; stages run on cpu", device, gpus.why_none));
  if (index >= static_cast<int>(gpus.found.size()))
    throw usage_error(fmt::format("--device {}: there are {} GPUs, up to {}", device,
                                  gpus.found.size(), gpus.found.back().name));
}

void check_one(const std::string& device) {
  if (device == "cpu")
    return;
  if (device.starts_with("cuda"))
    return check_gpu(device);
  throw usage_error(
    fmt::format("--device {}: not a device; there are cpu, cuda:N and emulated (see "
                "`sluice devices`)",
                device));
}

std::vector<std::string> check_list(const std::string& devices) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= devices.size();) {
    const auto end = std::min(devices.find(',', begin), devices.size());
    names.push_back(devices.substr(begin, end - begin));
    if (actors::is_emulated(names.back()))
      throw usage_error(fmt::format("--device {}: an emulated device stands for all stages of one "
                                    "process and is not mixed with others; give it alone",
                                    names.back()));
    check_one(names.back());
    begin = end + 1;
  }
  return names;
}

struct found_device {
  std::string name;
  bool usable;
  std::string what;
};

std::vector<found_device> all_devices() {
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<found_device> all{
    {"cpu", true,
     fmt::format("{} core{}, {}", cores, cores == 1 ? "" : "s", kernels::arithmetic())},
    {"emulated", true,
     "tasks that take time without computing: emulated:F=10ms:B=10ms:W=10ms:jitter="
     "lognormal/0.3:slow=0.1x4:seed=7"}};
  const auto gpus = list_gpus();
  for (const auto& each : gpus.found)
    all.push_back({each.name, true, each.what});
  if (gpus.found.empty())
    all.push_back({"cuda", false, gpus.why_none});
  return all;
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

std::vector<std::string> check_devices(const std::string& devices, int stages) {
  auto names = check_list(devices);
  const auto count = static_cast<int>(names.size());
  if (count != 1 && count != stages)
    throw usage_error(fmt::format("--device {}: {} devices for {} stages; give one for all or one "
                                  "for each",
                                  devices, count, stages));
  names.resize(static_cast<std::size_t>(stages), names.front());
  return names;
}

std::vector<std::string> check_offered_devices(const std::string& devices) {
  auto names = check_list(devices);
  if (names == std::vector<std::string>{"cpu"})
    return {};
  if (std::ranges::count(names, "cpu") > 0)
    throw usage_error(
      fmt::format("--device {}: a worker offers cpu or GPUs; start two for both", devices));
  if (std::set(names.begin(), names.end()).size() != names.size())
    throw usage_error(
      fmt::format("--device {}: a GPU is there twice; its stages share it in any case", devices));
  return names;
}

std::shared_ptr<kernels::device> open_device(const std::string& device) {
  if (actors::is_emulated(device))
    throw usage_error(
      fmt::format("--device {}: an emulated device computes nothing to measure", device));
  check_one(device);
  return device == "cpu" ? kernels::make_cpu_device() : open_gpu(index_of_gpu(device));
}

void place_stages(actors::pipeline_options& options, const std::vector<std::string>& devices) {
  std::vector<std::int32_t> gpu_ranks;
  std::set<int> indexes;
  for (std::size_t rank = 0; rank < devices.size(); ++rank)
    if (devices[rank].starts_with("cuda")) {
      gpu_ranks.push_back(static_cast<std::int32_t>(rank));
      indexes.insert(index_of_gpu(devices[rank]));
    }
  if (gpu_ranks.empty())
    return;
  options.device = [devices](std::int32_t rank) {
    return open_device(devices.at(static_cast<std::size_t>(rank)));
  };
  // NCCL wants a GPU for each rank; stages that share one go by hand-off.
  if (indexes.size() == gpu_ranks.size())
    options.network = gpu_network(static_cast<std::int32_t>(devices.size()), std::move(gpu_ranks));
}

void add_devices_command(CLI::App& app) {
  auto json = std::make_shared<std::string>();
  auto* command = app.add_subcommand("devices", "list the devices that stages can run on");
  command->footer("Example:\n  sluice devices");
  command->add_option("--json", *json, "the list as JSON; - for standard output [none]");
  command->callback([json] { list_devices(*json); });
}

} // namespace sluice::cli
