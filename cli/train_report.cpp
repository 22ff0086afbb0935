#include "cli/train_report.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/table.hpp"

namespace sluice::cli {

namespace {

constexpr std::size_t recent_steps = 20;

double median(std::span<const double> of) {
  if (of.empty())
    return 0;
  std::vector<double> values(of.begin(), of.end());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

} // namespace

double run_record::recent_step_seconds() const {
  const std::span all(step_seconds);
  return median(all.last(std::min(all.size(), recent_steps)));
}

nlohmann::json train_summary(const run_record& record, const recipe& what,
                             const std::string& weights_sha256) {
  const auto& points = record.curve.points();
  const auto typical = median(record.step_seconds);
  const auto tokens = static_cast<double>(what.batch_sequences() * what.length);
  auto stages = nlohmann::json::array();
  for (const auto& stage : record.last.stages)
    stages.push_back({{"busy", 1.0 - stage.bubble},
                      {"bubble", stage.bubble},
                      {"peak_activations", stage.memory.peak_activations},
                      {"peak_activation_bytes", stage.memory.peak_activation_bytes},
                      {"peak_transfer_bytes", stage.memory.peak_transfer_bytes},
                      {"peak_bytes", stage.memory.peak_bytes}});
  nlohmann::json summary{{"steps", record.step},
                         {"loss_first", nullptr},
                         {"loss_last", nullptr},
                         {"loss_held_out", nullptr},
                         {"tokens_per_second", typical > 0 ? tokens / typical : 0.0},
                         {"seconds_per_step", typical},
                         {"bubble", median(record.bubbles)},
                         {"stages", stages},
                         {"weights_sha256", nullptr},
                         {"faults", record.faults}};
  if (!weights_sha256.empty())
    summary["weights_sha256"] = weights_sha256;
  if (points.empty())
    return summary;
  summary["loss_first"] = points.front().loss;
  summary["loss_last"] = points.back().loss;
  const auto measured =
    std::ranges::find_if(points.rbegin(), points.rend(),
                         [](const loss_point& each) { return each.held_out.has_value(); });
  if (measured != points.rend())
    summary["loss_held_out"] = *measured->held_out;
  return summary;
}

std::string layers_on(std::int32_t rank, const plan::plan& plan,
                      const std::vector<std::vector<std::string>>& parts) {
  std::vector<std::string> runs;
  for (const auto& chunk : plan.chunks) {
    const auto& layers = parts.at(static_cast<std::size_t>(chunk.part));
    if (chunk.rank == rank)
      runs.push_back(layers.size() == 1 ? layers.front() : layers.front() + " to " + layers.back());
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

std::string train_text(const run_record& record, const nlohmann::json& summary,
                       const std::vector<std::string>& layers) {
  std::vector<stage_row> rows;
  for (const auto& stage : record.last.stages)
    rows.push_back({.stage = static_cast<std::size_t>(stage.rank),
                    .layers = layers.at(static_cast<std::size_t>(stage.rank)),
                    .busy = 1.0 - stage.bubble,
                    .bubble = stage.bubble,
                    .peak_activations = static_cast<std::size_t>(stage.memory.peak_activations),
                    .peak_activation_bytes = stage.memory.peak_activation_bytes,
                    .peak_bytes = stage.memory.peak_bytes});
  const auto& points = record.curve.points();
  auto text = stage_table(rows) + '\n';
  text += fmt::format("loss {:.4f} -> {:.4f} in {} step{}", points.front().loss, points.back().loss,
                      points.size(), points.size() == 1 ? "" : "s");
  if (points.back().held_out)
    text += fmt::format(", {:.4f} on held-out text", *points.back().held_out);
  text += fmt::format(
    "\n{:.0f} tokens/s, {:.4f} s a step (median), bubble {:.1f}%\nweights {}\n",
    summary["tokens_per_second"].get<double>(), summary["seconds_per_step"].get<double>(),
    100 * summary["bubble"].get<double>(), summary["weights_sha256"].get<std::string>());
  return text;
}

void write_curve(const loss_curve& curve, const std::filesystem::path& file) {
  auto rows = file;
  auto picture = file;
  if (file.extension() == ".svg")
    rows.replace_extension(".csv");
  else
    picture.replace_extension(".svg");
  curve.write_csv(rows);
  curve.write_svg(picture, "Loss");
}

} // namespace sluice::cli
