#include "actors/stress/judge.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace sluice::stress {

namespace {

std::string in_lane_order(const plan::plan& of, std::size_t rank,
                          const std::vector<actors::executed_task>& ran) {
  const auto& mine = of.by_rank[rank];
  if (static_cast<std::int64_t>(ran.size()) != mine.tasks())
    return fmt::format("rank {} ran {} tasks of {}", rank, ran.size(), mine.tasks());
  std::array<std::size_t, 4> next{};
  for (std::size_t i = 0; i < ran.size(); ++i) {
    const auto& what = ran[i].what;
    const auto& lane = mine.lane(what.kind);
    auto& at = next[static_cast<std::size_t>(what.kind)];
    if (at == lane.size())
      return fmt::format("rank {} ran {} beside its lane", rank, plan::to_string(of, what));
    if (lane[at].chunk != what.chunk || lane[at].micro_batch != what.micro_batch)
      return fmt::format(
        "rank {} ran {} where its lane has {}", rank, plan::to_string(of, what),
        plan::to_string(of, plan::task{what.kind, lane[at].chunk, lane[at].micro_batch}));
    if (!mine.order.empty() && mine.order[i] != what.kind)
      return fmt::format("rank {} ran {} where its order has {}", rank, plan::to_string(of, what),
                         plan::letter(mine.order[i]));
    if (i > 0 && ran[i].start_ns < ran[i - 1].end_ns)
      return fmt::format("rank {} began {} before the end of {}", rank, plan::to_string(of, what),
                         plan::to_string(of, ran[i - 1].what));
    ++at;
  }
  return {};
}

bool equal(const std::vector<std::byte>& expected, std::span<const std::byte> found) {
  return std::ranges::equal(expected, found);
}

} // namespace

std::string order_complaint(const plan::plan& of, const actors::step_report& report) {
  if (report.tasks.size() != of.by_rank.size())
    return fmt::format("{} ranks of {} reported tasks", report.tasks.size(), of.by_rank.size());
  for (std::size_t rank = 0; rank < of.by_rank.size(); ++rank)
    if (auto wrong = in_lane_order(of, rank, report.tasks[rank]); !wrong.empty())
      return "order: " + wrong;
  return {};
}

std::string memory_complaint(const trial& of, const actors::step_report& report) {
  for (const auto& stage : report.stages) {
    const auto rank = static_cast<std::size_t>(stage.rank);
    const auto credits = of.plan.by_rank[rank].credits;
    const auto most = std::min(credits, of.verdict.most_activations[rank]);
    if (stage.memory.peak_activations > most)
      return fmt::format("memory: rank {} held {} activations; its credits are {}, the checker "
                         "says {} at most",
                         rank, stage.memory.peak_activations, credits,
                         of.verdict.most_activations[rank]);
  }
  return {};
}

std::string step_complaint(const serial_run::result& expected, const actors::step_report& report) {
  if (report.loss != expected.loss) // Also when either is not a number.
    return fmt::format("exactness: step {} has the loss {:a}, the serial run {:a}", report.step,
                       report.loss, expected.loss);
  if (report.gradient_norm != expected.gradient_norm)
    return fmt::format("exactness: step {} has the gradient norm {:a}, the serial run {:a}",
                       report.step, report.gradient_norm, expected.gradient_norm);
  return {};
}

std::string state_complaint(const reference& expected, const actors::model_state& state) {
  const auto found = bytes_of(state);
  for (const auto& [name, bytes] : expected.bytes) {
    const auto at = found.find(name);
    if (at == found.end())
      return fmt::format("exactness: {} is missing", name);
    if (at->second != bytes)
      return fmt::format("exactness: {} differs from the serial run", name);
  }
  if (found.size() != expected.bytes.size())
    return fmt::format("exactness: {} tensors, the serial run has {}", found.size(),
                       expected.bytes.size());
  return {};
}

std::string prediction_complaint(const reference& expected,
                                 const std::vector<kernels::tensor_list>& outputs) {
  if (outputs.size() != expected.predictions.size())
    return fmt::format("exactness: {} predictions of {}", outputs.size(),
                       expected.predictions.size());
  for (std::size_t m = 0; m < outputs.size(); ++m)
    if (!equal(expected.predictions[m], outputs[m].at(0).bytes_span()))
      return fmt::format("exactness: the prediction of micro-batch {} differs", m);
  return {};
}

} // namespace sluice::stress
