#include "cli/hosting.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "cli/failure.hpp"
#include "kernels/arithmetic.hpp"

namespace sluice::cli {

namespace {

constexpr auto local = "local";

/// Results are equal bit for bit only where all compute alike.
void compare_arithmetic(const std::vector<actors::roll_entry>& roll) {
  const auto here = kernels::arithmetic();
  for (const auto& each : roll)
    if (each.problem.empty() && each.offer.arithmetic != here)
      spdlog::warn("the worker {} computes with {}, this process with {}: results may differ from "
                   "those of one process in their last bits",
                   each.address, each.offer.arithmetic, here);
}

} // namespace

hosting::hosting(const host_options& options, int stages)
  : options_(options),
    meeting_(options.meeting.hosts()),
    workers_(checked_workers(options.workers)),
    placement_(options.placement) {
  if (placement_.empty()) {
    placement_ = place_in_blocks(workers_, stages);
    return;
  }
  if (placement_.size() != static_cast<std::size_t>(stages))
    throw usage_error(fmt::format("--placement names {} places for {} stages: give one for each",
                                  placement_.size(), stages));
  for (const auto& each : placement_)
    if (each != local && std::ranges::count(workers_, each) == 0)
      workers_.push_back(each);
  checked_workers(workers_);
}

hosting::called hosting::call() const {
  auto crew = std::make_shared<actors::crew>(actors::crew_options{
    .workers = workers_, .hosts = meeting_, .checksum = options_.checksum, .nccl = options_.nccl});
  auto roll = crew->call(actors::call_for::work, milliseconds_of(options_.join_deadline));
  compare_arithmetic(roll);
  return {std::move(crew), std::move(roll)};
}

void hosting::check_slots(const std::vector<actors::roll_entry>& roll) const {
  for (const auto& each : roll) {
    const auto wanted = std::ranges::count(placement_, each.address);
    if (each.problem.empty() && wanted > each.offer.stages)
      throw usage_error(fmt::format(
        "the worker {} hosts {} stage{} at most, and {} would be placed there: give more workers, "
        "fewer --stages, or start it with --slots {}",
        each.address, each.offer.stages, each.offer.stages == 1 ? "" : "s", wanted, wanted));
  }
}

hosting::muster hosting::all() const {
  auto [crew, roll] = call();
  for (const auto& each : roll)
    if (!each.problem.empty())
      throw usage_error(fmt::format("the worker {} cannot be had: {}; start it with `sluice worker "
                                    "--listen {}`, or leave it out",
                                    each.address, each.problem, each.address));
  check_slots(roll);
  if (options_.nccl && std::ranges::all_of(roll, [](const actors::roll_entry& each) {
        return each.offer.devices.empty();
      }))
    throw usage_error("--nccl: no worker offers a GPU; start them with --device cuda:0, or leave "
                      "--nccl out");
  return {std::move(crew), placement_};
}

hosting::muster hosting::those_left() const {
  auto [crew, roll] = call();
  muster left{.crew = std::move(crew), .placement = {}};
  for (const auto& place : placement_) {
    const auto found = std::ranges::find(roll, place, &actors::roll_entry::address);
    if (found == roll.end() || found->problem.empty())
      left.placement.push_back(place);
  }
  for (const auto& each : roll)
    if (!each.problem.empty())
      left.absent.push_back(fmt::format("{}: {}", each.address, each.problem));
  if (left.placement.empty())
    throw std::runtime_error(fmt::format("no worker came back within {} s ({})",
                                         options_.join_deadline, fmt::join(left.absent, "; ")));
  return left;
}

} // namespace sluice::cli
