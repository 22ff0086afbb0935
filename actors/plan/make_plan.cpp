#include "actors/plan/make_plan.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "actors/plan/action_table.hpp"
#include "actors/plan/schedules/schedules.hpp"

namespace sluice::plan {

namespace {

constexpr schedule known[] = {
  {"gpipe", "all forwards, then all backwards", 1, false, schedules::gpipe},
  {"1f1b", "one forward, one backward: holds as many activations as ranks follow", 1, false,
   schedules::one_f_one_b},
  {"interleaved", "1f1b with several chunks a rank: a shorter ramp", 2, true,
   schedules::interleaved},
  {"zb-h1", "1f1b with split backwards: a third of its idle time, the same peak", 1, false,
   schedules::zb_h1},
  {"zb-h2", "no idle time, twice the activations of 1f1b", 1, false, schedules::zb_h2},
  {"interleaved-zb", "interleaved with split backwards: no idle time", 2, true,
   schedules::interleaved_zb},
  {"zb-v", "chunks in a V: no idle time at the peak of 1f1b", 2, false, schedules::zb_v},
  {"v-half", "chunks in a V: half the activations of 1f1b", 2, false, schedules::v_half},
  {"v-min", "chunks in a V: a third of the activations of 1f1b", 2, false, schedules::v_min},
  {"dualpipe", "two pipelines towards each other, two stages a rank", 2, false,
   schedules::dual_pipe},
  {"dualpipe-v", "dualpipe folded into a V: one copy of the weights", 2, false,
   schedules::dual_pipe_v},
  {"pipedream", "asynchronous: an update after every backward, weights stashed", 1, false,
   schedules::pipe_dream},
  {"pipedream-2bw", "asynchronous: two versions of the weights, gradients accumulated", 1, false,
   schedules::pipe_dream_2bw},
};

const schedule& find(std::string_view name) {
  const auto found = std::find_if(std::begin(known), std::end(known),
                                  [&](const schedule& s) { return s.name == name; });
  if (found != std::end(known))
    return *found;
  std::string names;
  for (const auto& s : known)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", s.name);
  throw plan_error(fmt::format("unknown schedule '{}'; there are {}, and file:PATH", name, names));
}

void require(bool holds, std::string_view what, std::int64_t is) {
  if (!holds)
    throw plan_error(fmt::format("{}, not {}", what, is));
}

/// Above its own number a rank only gains slack. Below, the warm-up level must follow: a rank that
/// waits for a forward that it has no credit for, and may not run a backward instead, waits
/// forever.
void set_credits(plan& made, std::int32_t credits) {
  for (auto& mine : made.by_rank) {
    mine.stand_in = mine.stand_in || credits > mine.credits;
    mine.credits = credits;
    mine.warm_up = std::min(mine.warm_up, credits);
  }
}

plan from_file(std::string_view name, const plan_request& wanted) {
  auto made = read_action_table_file(std::string{name.substr(5)});
  const auto agree = [&](std::string_view what, std::int32_t asked, std::int32_t has) {
    if (asked != 0 && asked != has)
      throw plan_error(fmt::format("{} has {} {}, not {}", name, has, what, asked));
  };
  agree("stages", wanted.stages, made.ranks);
  agree("micro-batches", wanted.micro_batches, made.micro_batches);
  made.schedule = name;
  made.receive_slots = wanted.receive_slots;
  if (wanted.credits)
    set_credits(made, *wanted.credits);
  return wanted.forward_only ? forward_only(std::move(made)) : made;
}

} // namespace

std::span<const schedule> all_schedules() {
  return known;
}

plan forward_only(plan training) {
  training.forward_only = true;
  for (auto& mine : training.by_rank) {
    mine.backwards.clear();
    mine.weights.clear();
    mine.updates.clear();
    mine.order.clear();
    for (auto& entry : mine.forwards)
      entry.version = 0;
  }
  training.asynchronous = false;
  return training;
}

plan forward_only(const plan& training, std::int32_t micro_batches) {
  if (micro_batches == training.micro_batches)
    return forward_only(training);
  const auto& schedule = find(training.schedule);
  plan_request wanted{.stages = training.ranks, .micro_batches = micro_batches};
  if (schedule.chunks_free)
    wanted.chunks = training.parts / training.ranks;
  wanted.forward_only = true;
  auto made = make_plan(training.schedule, wanted);
  for (std::size_t rank = 0; rank < made.by_rank.size(); ++rank)
    made.by_rank[rank].look_ahead = training.by_rank[rank].look_ahead;
  return made;
}

plan make_plan(std::string_view name, const plan_request& wanted) {
  if (name.starts_with("file:"))
    return from_file(name, wanted);
  const auto& schedule = find(name);
  require(wanted.stages >= 1, "the number of stages must be at least 1", wanted.stages);
  require(wanted.micro_batches >= 1, "the number of micro-batches must be at least 1",
          wanted.micro_batches);
  require(wanted.receive_slots >= 0, "the number of receive slots must be 0 or more",
          wanted.receive_slots);
  const auto chunks = wanted.chunks.value_or(schedule.chunks);
  require(chunks >= 1, "the number of chunks must be at least 1", chunks);
  require(
    schedule.chunks_free || chunks == schedule.chunks,
    fmt::format("{} has {} chunk{} a rank", name, schedule.chunks, schedule.chunks == 1 ? "" : "s"),
    chunks);
  const auto credits = wanted.credits.value_or(1);
  require(credits >= 1, "the number of credits must be at least 1", credits);

  auto exact = wanted;
  exact.chunks = chunks;
  auto made = schedule.make(exact);
  made.schedule = name;
  made.receive_slots = wanted.receive_slots;
  if (wanted.credits)
    set_credits(made, credits);
  return wanted.forward_only ? forward_only(std::move(made)) : made;
}

} // namespace sluice::plan
