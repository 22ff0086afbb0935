#include "cli/trace_file.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/atomic_file.hpp"
#include "cli/failure.hpp"

namespace sluice::cli {

namespace {

using nlohmann::json;

constexpr std::array kinds{std::pair{plan::task_kind::forward, "forward"},
                           std::pair{plan::task_kind::backward, "backward"},
                           std::pair{plan::task_kind::weight, "weight gradient"},
                           std::pair{plan::task_kind::update, "update"}};

const char* name(plan::task_kind kind) {
  return std::ranges::find(kinds, kind, &decltype(kinds)::value_type::first)->second;
}

std::int64_t first_start(const actors::step_report& report) {
  auto first = std::numeric_limits<std::int64_t>::max();
  for (const auto& tasks : report.tasks)
    for (const auto& each : tasks)
      first = std::min(first, each.start_ns);
  return first;
}

json row_name(std::size_t rank) {
  return {{"name", "thread_name"},
          {"ph", "M"},
          {"pid", 0},
          {"tid", rank},
          {"args", {{"name", fmt::format("stage {}", rank)}}}};
}

/// The format counts in microseconds; decimals keep the nanoseconds.
json span_of(const plan::plan& of, std::size_t rank, const actors::executed_task& task,
             std::int64_t zero_ns) {
  return {{"name", fmt::format("{}{}", plan::letter(task.what.kind), task.what.micro_batch)},
          {"cat", name(task.what.kind)},
          {"ph", "X"},
          {"pid", 0},
          {"tid", rank},
          {"ts", static_cast<double>(task.start_ns - zero_ns) / 1e3},
          {"dur", static_cast<double>(task.end_ns - task.start_ns) / 1e3},
          {"args",
           {{"micro_batch", task.what.micro_batch},
            {"chunk", task.what.chunk},
            {"part", of.chunks.at(static_cast<std::size_t>(task.what.chunk)).part}}}};
}

/// Most activations that a rank held at once, of one chunk each: from the start of a forward to the
/// end of what uses it last.
std::int32_t peak_activations(const std::vector<plan::timed_task>& tasks) {
  std::map<std::pair<std::int32_t, std::int32_t>, double> ends;
  for (const auto& each : tasks) {
    auto& end = ends[{each.what.chunk, each.what.micro_batch}];
    end = std::max(end, each.end);
  }
  std::vector<std::pair<double, std::int32_t>> changes;
  for (const auto& each : tasks)
    if (each.what.kind == plan::task_kind::forward) {
      changes.emplace_back(each.start, 1);
      changes.emplace_back(ends[{each.what.chunk, each.what.micro_batch}], -1);
    }
  std::ranges::sort(changes); // at one moment, what ends goes first
  std::int32_t held = 0;
  std::int32_t most = 0;
  for (const auto& [when, change] : changes)
    most = std::max(most, held += change);
  return most;
}

/// Work, span and peaks, from the tasks.
void count(plan::simulation& ran, std::int32_t ranks) {
  std::ranges::sort(ran.tasks, {},
                    [](const auto& each) { return std::pair(each.start, each.rank); });
  ran.finished = true;
  double end = 0;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    std::vector<plan::timed_task> mine;
    std::ranges::copy_if(ran.tasks, std::back_inserter(mine),
                         [rank](const auto& each) { return each.rank == rank; });
    plan::rank_numbers numbers;
    for (const auto& each : mine) {
      numbers.work += each.end - each.start;
      numbers.last_end = std::max(numbers.last_end, each.end);
    }
    numbers.first_start = mine.empty() ? 0 : mine.front().start;
    numbers.peak_activations = peak_activations(mine);
    end = std::max(end, numbers.last_end);
    ran.work += numbers.work;
    ran.by_rank.push_back(numbers);
  }
  ran.span = ran.tasks.empty() ? 0 : end - ran.tasks.front().start;
}

plan::timed_task read_span(const json& event, const plan::plan& of) {
  const auto kind = std::ranges::find_if(
    kinds, [&](const auto& each) { return event.at("cat").get<std::string>() == each.second; });
  const auto& details = event.at("args");
  plan::timed_task task{.rank = event.at("tid").get<std::int32_t>()};
  const auto chunk = details.at("chunk").get<std::size_t>();
  task.start = event.at("ts").get<double>() / 1e3;
  task.end = task.start + event.at("dur").get<double>() / 1e3;
  if (kind == kinds.end() || task.rank < 0 || task.rank >= of.ranks || chunk >= of.chunks.size()
      || !(task.start >= 0 && task.end >= task.start && task.end < 1e15))
    throw std::out_of_range(fmt::format("the event {}", event.dump()));
  task.what = {kind->first, static_cast<std::int32_t>(chunk),
               details.at("micro_batch").get<std::int32_t>()};
  return task;
}

executed_schedule read_events(const json& all) {
  executed_schedule found;
  const auto& about = all.at("otherData");
  found.step = about.at("step").get<std::uint64_t>();
  found.plan.schedule = about.at("schedule").get<std::string>();
  found.plan.ranks = about.at("stages").get<std::int32_t>();
  found.plan.micro_batches = about.at("micro_batches").get<std::int32_t>();
  found.plan.parts = about.at("parts").get<std::int32_t>();
  for (const auto& chunk : about.at("chunks"))
    found.plan.chunks.push_back({.rank = chunk.at("stage").get<std::int32_t>(),
                                 .part = chunk.at("part").get<std::int32_t>(),
                                 .local = chunk.at("local").get<std::int32_t>()});
  if (found.plan.ranks < 1 || found.plan.ranks > 1'000'000)
    throw std::out_of_range(fmt::format("{} stages", found.plan.ranks));
  for (const auto& event : all.at("traceEvents"))
    if (event.at("ph").get<std::string>() == "X")
      found.ran.tasks.push_back(read_span(event, found.plan));
  count(found.ran, found.plan.ranks);
  return found;
}

} // namespace

void write_trace(const std::filesystem::path& file, const plan::plan& plan,
                 const actors::step_report& report) {
  auto events = json::array();
  const auto zero = first_start(report);
  for (std::size_t rank = 0; rank < report.tasks.size(); ++rank) {
    events.push_back(row_name(rank));
    for (const auto& task : report.tasks[rank])
      events.push_back(span_of(plan, rank, task, zero));
  }
  auto chunks = json::array();
  for (const auto& each : plan.chunks)
    chunks.push_back({{"stage", each.rank}, {"part", each.part}, {"local", each.local}});
  const json all{{"displayTimeUnit", "ms"},
                 {"otherData",
                  {{"schedule", plan.schedule},
                   {"step", report.step + 1},
                   {"stages", plan.ranks},
                   {"micro_batches", plan.micro_batches},
                   {"parts", plan.parts},
                   {"chunks", chunks}}},
                 {"traceEvents", events}};
  write_atomically(file, all.dump(1) + "\n");
}

executed_schedule read_trace(const std::filesystem::path& file) {
  std::ifstream input(file);
  if (!input || std::filesystem::is_directory(file))
    throw usage_error(fmt::format("cannot read the trace {}: give the file that `sluice train "
                                  "--trace FILE` wrote",
                                  file.string()));
  try {
    return read_events(json::parse(input));
  } catch (const std::exception& problem) {
    throw usage_error(fmt::format("{} is no trace that `sluice train --trace` wrote: {}",
                                  file.string(), problem.what()));
  }
}

} // namespace sluice::cli
