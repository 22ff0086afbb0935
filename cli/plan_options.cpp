#include "cli/plan_options.hpp"

#include <charconv>

#include <fmt/format.h>

#include "actors/plan/credits.hpp"
#include "cli/failure.hpp"
#include "cli/train_options.hpp"

namespace sluice::cli {

namespace {

/// "0.3" of "lognormal/0.3", or nothing unless all of the text is a number.
bool read_number(std::string_view text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

} // namespace

plan::jitter parse_jitter(const std::string& text) {
  plan::jitter noise;
  const auto first = text.find('/');
  const auto second = first == text.npos ? text.npos : text.find('/', first + 1);
  const std::string_view all = text;
  if (text == "none" || text.empty())
    return noise;
  if (text.starts_with("lognormal/") && read_number(all.substr(10), noise.sigma)
      && noise.sigma >= 0)
    return noise;
  if (text.starts_with("slow/") && second != text.npos
      && read_number(all.substr(5, second - 5), noise.slow_share) && noise.slow_share >= 0
      && noise.slow_share <= 1 && read_number(all.substr(second + 1), noise.slow_factor)
      && noise.slow_factor > 0)
    return noise;
  throw usage_error(fmt::format("--jitter {}: not a kind of noise; write none, lognormal/SIGMA as "
                                "in lognormal/0.3, or slow/SHARE/FACTOR as in slow/0.1/4",
                                text));
}

plan::plan plan_options::make(const std::string& schedule_name) const {
  const bool from_file = schedule_name.starts_with("file:");
  plan::plan_request wanted{.stages = stages, .micro_batches = micro_batches};
  if (!from_file && stages == 0)
    wanted.stages = 4;
  if (!from_file && micro_batches == 0)
    wanted.micro_batches = 2 * wanted.stages;
  if (chunks != 0)
    wanted.chunks = chunks;
  wanted.receive_slots = receive_slots;
  double number = 0;
  const bool own = credits == "own" || credits == "auto";
  if (!own) {
    if (!read_number(credits, number) || number != static_cast<std::int32_t>(number))
      throw usage_error(fmt::format("--credits {}: write a whole number, own or auto", credits));
    wanted.credits = static_cast<std::int32_t>(number);
  }
  auto made = plan::make_plan(schedule_name, wanted);
  if (credits == "auto") {
    if (memory.empty() || activation_bytes <= 0)
      throw usage_error("--credits auto fills a memory: give --memory and --activation-bytes");
    plan::fit_credits(made,
                      std::vector<double>(made.chunks.size(), activation_bytes * made.share()),
                      memories(made.ranks));
  }
  return made;
}

plan::conditions plan_options::conditions_for(const plan::plan& of) const {
  plan::conditions under{
    .stage = {.forward = forward, .backward = backward, .weight = weight, .update = update},
    .between = {.latency = link_latency, .bandwidth = link_bandwidth},
    .message_bytes = message_bytes,
    .noise = parse_jitter(jitter),
    .look_ahead = look_ahead,
    .dispatch_time = dispatch_time,
    .patience = patience};
  under.noise.seed = seed;
  under.slowness = slowness(of.ranks);
  return under;
}

std::vector<double> plan_options::slowness(std::int32_t ranks) const {
  std::vector<double> all;
  if (!slow_ranks.empty())
    all.assign(ranks, 1);
  for (const auto& each : slow_ranks) {
    const auto colon = each.find(':');
    double rank = -1;
    double times = 0;
    if (colon == each.npos || !read_number(std::string_view{each}.substr(0, colon), rank)
        || !read_number(std::string_view{each}.substr(colon + 1), times) || rank < 0
        || rank >= ranks || times <= 0)
      throw usage_error(
        fmt::format("--slow-rank {}: write RANK:TIMES as in 2:1.3, with a rank from "
                    "0 to {}",
                    each, ranks - 1));
    all[static_cast<std::size_t>(rank)] = times;
  }
  return all;
}

std::vector<double> plan_options::memories(std::int32_t ranks) const {
  std::vector<double> all;
  for (const auto& each : memory)
    all.push_back(static_cast<double>(parse_bytes(each, "memory")));
  if (all.size() == 1)
    all.resize(ranks, all.front());
  if (!all.empty() && all.size() != static_cast<std::size_t>(ranks))
    throw usage_error(fmt::format("--memory: {} sizes for {} stages; write one for all, or one for "
                                  "each with commas between",
                                  all.size(), ranks));
  return all;
}

} // namespace sluice::cli
