#include "cli/plan_report.hpp"

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

namespace sluice::cli {

namespace {

using nlohmann::json;

json task_json(const plan::plan& of, const plan::task& which) {
  const auto& place = of.chunks[which.chunk];
  return {{"rank", place.rank},
          {"kind", std::string(1, plan::letter(which.kind))},
          {"chunk", place.local},
          {"stage", place.part},
          {"micro_batch", which.micro_batch}};
}

const char* name(plan::reason why) {
  switch (why) {
  case plan::reason::input:
    return "input";
  case plan::reason::lane:
    return "lane";
  case plan::reason::credit:
    return "credit";
  case plan::reason::order:
    return "order";
  case plan::reason::weights:
    return "weights";
  case plan::reason::sum:
    return "sum";
  case plan::reason::receive_slot:
    break;
  }
  return "receive_slot";
}

json cycle_json(const plan::plan& of, const plan::verdict& checked) {
  auto cycle = json::array();
  for (const auto& each : checked.cycle) {
    auto link = task_json(of, each.waiting);
    link["waits_for"] = task_json(of, each.on);
    link["why"] = name(each.why);
    cycle.push_back(link);
  }
  return cycle;
}

std::int32_t chunks_a_rank(const plan::plan& of) {
  std::int32_t most = 0;
  for (const auto& place : of.chunks)
    most = std::max(most, place.local + 1);
  return most;
}

json numbers_json(const plan::plan& of, const plan::simulation& ran) {
  auto cost = json::array();
  auto peak = json::array();
  auto busy = json::array();
  auto credits = json::array();
  auto warm_up = json::array();
  for (std::size_t r = 0; r < ran.by_rank.size(); ++r) {
    cost.push_back(ran.by_rank[r].idle());
    peak.push_back(ran.by_rank[r].peak_activations * of.share());
    busy.push_back(ran.by_rank[r].work);
    credits.push_back(of.by_rank[r].credits);
    warm_up.push_back(of.by_rank[r].warm_up);
  }
  auto tasks = json::array();
  for (const auto& each : ran.tasks) {
    auto one = task_json(of, each.what);
    one["start"] = each.start;
    one["end"] = each.end;
    tasks.push_back(one);
  }
  return {{"span", ran.span},
          {"bubble", ran.bubble()},
          {"cost", cost},
          {"work", busy},
          {"credits", credits},
          {"warm_up", warm_up},
          {"peak_activations", peak},
          {"tasks", tasks}};
}

} // namespace

nlohmann::json to_json(const plan::plan& of, const plan::verdict& checked,
                       const plan::simulation& ran) {
  json all{{"schedule", of.schedule},
           {"stages", of.ranks},
           {"micro_batches", of.micro_batches},
           {"chunks", chunks_a_rank(of)},
           {"live", checked.live},
           {"cycle", cycle_json(of, checked)},
           {"split_backward", plan::splits(of)},
           {"asynchronous", of.asynchronous}};
  if (checked.live) {
    all.update(numbers_json(of, ran));
    return all;
  }
  all["why"] = checked.text;
  for (const auto* number : {"span", "bubble"})
    all[number] = nullptr;
  for (const auto* list : {"cost", "work", "credits", "warm_up", "peak_activations", "tasks"})
    all[list] = json::array();
  return all;
}

nlohmann::json to_json(const plan::proposal& of) {
  auto parts = json::array();
  for (const auto& range : of.parts)
    parts.push_back({range.begin, range.end});
  auto recomputes = json::array();
  auto credits = json::array();
  auto warm_up = json::array();
  for (std::size_t r = 0; r < of.recomputes.size(); ++r) {
    recomputes.push_back(static_cast<bool>(of.recomputes[r]));
    credits.push_back(of.made.by_rank[r].credits);
    warm_up.push_back(of.made.by_rank[r].warm_up);
  }
  return {{"what", of.text()},
          {"schedule", of.made.schedule},
          {"stages", of.made.ranks},
          {"micro_batches", of.made.micro_batches},
          {"merged", of.merged},
          {"chunks", chunks_a_rank(of.made)},
          {"step", of.step},
          {"parts", parts},
          {"recomputes", recomputes},
          {"credits", credits},
          {"warm_up", warm_up},
          {"peak_bytes", of.peak_bytes},
          {"memory_times", of.memory_times}};
}

} // namespace sluice::cli
