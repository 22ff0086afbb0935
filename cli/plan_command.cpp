#include "cli/plan_command.hpp"

#include <algorithm>
#include <memory>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "actors/plan/action_table.hpp"
#include "actors/plan/check.hpp"
#include "actors/plan/draw.hpp"
#include "cli/atomic_file.hpp"
#include "cli/failure.hpp"
#include "cli/layer_profile.hpp"
#include "cli/model.hpp"
#include "cli/plan_options.hpp"
#include "cli/plan_report.hpp"
#include "cli/proposal.hpp"
#include "cli/table.hpp"
#include "cli/train_options.hpp"

namespace sluice::cli {

namespace {

/// Everything that one call prints and writes.
class planner {
public:
  explicit planner(const plan_options& options) : options_{options} {}

  int run(bool schedule_given) {
    if (!options_.memory.empty() && !has_profile() && options_.credits != "auto")
      throw usage_error("--memory needs to know what fills it: give --profile FILE (see `sluice "
                        "profile`), --model to measure one now, or --credits auto with "
                        "--activation-bytes");
    if (!options_.profile.empty() && !options_.model.empty())
      throw usage_error("--profile and --model exclude each other: a profile is of a model");
    if (!options_.profile.empty())
      profile_ = read_layer_profile(options_.profile);
    else if (!options_.model.empty())
      profile_ = measure_profile(recipe_of_model(), options_.device, 1);
    try {
      if (has_profile() && !schedule_given && options_.plan_file.empty())
        return search();
      return show();
    } catch (const plan::plan_error& problem) {
      throw usage_error(problem.what());
    }
  }

private:
  bool has_profile() const { return !options_.profile.empty() || !options_.model.empty(); }
  bool quiet() const { return options_.json == "-"; }

  template <class... Args>
  void say(fmt::format_string<Args...> what, Args&&... args) const {
    if (!quiet())
      fmt::print(what, std::forward<Args>(args)...);
  }

  void write_json(const nlohmann::json& all) const {
    if (quiet())
      fmt::print("{}\n", all.dump(2));
    else if (!options_.json.empty())
      write_atomically(options_.json, all.dump(2) + "\n");
  }

  recipe recipe_of_model() const {
    auto what = options_.measured;
    what.model = options_.model;
    return what;
  }

  std::vector<plan::device_kind> devices(std::int32_t ranks) const {
    std::vector<plan::device_kind> all(ranks);
    const auto slow = options_.slowness(ranks);
    const auto memory = options_.memories(ranks);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (!slow.empty())
        all[rank].speed = 1 / slow[rank];
      if (!memory.empty())
        all[rank].memory_bytes = memory[rank];
    }
    return all;
  }

  plan::search_request request(std::int32_t ranks) const {
    plan::search_request wanted;
    wanted.layers = profile_.layers;
    wanted.devices = devices(ranks);
    if (profile_.measured)
      wanted.state_factor = state_factor(*profile_.measured);
    wanted.batch = options_.micro_batches > 0 ? options_.micro_batches : 8;
    wanted.between = {.latency = options_.link_latency, .bandwidth = options_.link_bandwidth};
    wanted.schedules = options_.compare;
    return wanted;
  }

  std::string schedule() const {
    return options_.plan_file.empty() ? options_.schedule : "file:" + options_.plan_file;
  }

  /// Conditions by the profile where there is one, or as the options say.
  plan::conditions conditions(const plan::plan& of) const {
    auto under = options_.conditions_for(of);
    if (!has_profile())
      return under;
    const auto wanted = request(of.ranks);
    under.slowness.clear(); // it is in the devices' speeds
    const auto measured = conditions_of(plan::propose(of, wanted), wanted);
    under.by_chunk = measured.by_chunk;
    under.output_bytes = measured.output_bytes;
    return under;
  }

  int show() const {
    const auto made = options_.make(schedule());
    const auto checked = plan::check(made);
    if (!checked.live) {
      write_json(to_json(made, checked, {}));
      spdlog::error("{}", checked.text);
      return exit_code::failure;
    }
    const auto ran = plan::simulate(made, conditions(made));
    auto all = to_json(made, checked, ran);
    say("{}, {} stages, {} micro-batches: span {:.6g}, bubble {:.1f}%, worst idle {:.6g}\n\n",
        made.schedule, made.ranks, made.micro_batches, ran.span, 100 * ran.bubble(), ran.cost());
    say("{}\n", plan::draw_text(made, ran, {options_.columns, options_.colours}));
    say("{}\n", plan::rank_table(made, ran));
    const auto crossing = plan::count_traffic(made, options_.message_bytes);
    say("{} messages between ranks", crossing.messages);
    say("{}\n", crossing.bytes > 0 ? fmt::format(", {:.6g} bytes", crossing.bytes) : "");
    all["messages"] = crossing.messages;
    if (!options_.compare.empty())
      all["compare"] = compare();
    if (!options_.csv.empty())
      write_atomically(options_.csv, plan::write_action_table(made));
    if (!options_.svg.empty())
      write_atomically(options_.svg, plan::draw_svg(made, ran));
    write_json(all);
    return exit_code::success;
  }

  nlohmann::json compare() const {
    std::vector<plan::compared> lines;
    auto all = nlohmann::json::array();
    for (const auto& name : options_.compare) {
      const auto made = options_.make(name);
      const auto line = plan::compare(made, conditions(made));
      all.push_back({{"schedule", line.name},
                     {"live", line.live},
                     {"span", line.span},
                     {"cost", line.cost},
                     {"bubble", line.bubble},
                     {"peak_activations", line.peak},
                     {"messages", line.messages}});
      lines.push_back(line);
    }
    say("\n{}", plan::comparison_table(lines));
    return all;
  }

  static std::string gibibytes(const plan::proposal& of) {
    const auto most = *std::max_element(of.peak_bytes.begin(), of.peak_bytes.end());
    return fmt::format("{:.3g}", most / (1024. * 1024 * 1024));
  }

  int search() const {
    const auto wanted = request(options_.stages > 0 ? options_.stages : 4);
    const auto found = plan::search(wanted);
    nlohmann::json all{{"tried", found.tried},
                       {"proposals", nlohmann::json::array()},
                       {"with_more_memory", nlohmann::json::array()}};
    if (!found.fitting.empty()) {
      const auto& best = found.fitting.front();
      const auto ran = plan::simulate(best.made, conditions_of(best, wanted));
      all.update(to_json(best.made, plan::check(best.made), ran));
      say("{}\n", plan::draw_text(best.made, ran, {options_.columns, options_.colours}));
      if (!options_.svg.empty())
        write_atomically(options_.svg, plan::draw_svg(best.made, ran, "seconds"));
      if (!options_.csv.empty())
        write_atomically(options_.csv, plan::write_action_table(best.made));
    }
    table fitting({"plan", "step", "GiB"});
    for (const auto& each : found.fitting) {
      fitting.add({each.text(), fmt::format("{:.4g}", each.step), gibibytes(each)});
      all["proposals"].push_back(to_json(each));
    }
    table more({"with more memory", "step", "GiB"});
    for (const auto& each : found.with_more) {
      more.add({each.text(), fmt::format("{:.4g}", each.step), gibibytes(each)});
      all["with_more_memory"].push_back(to_json(each));
    }
    say("{}", fitting.text());
    if (!found.with_more.empty())
      say("\n{}", more.text());
    if (!found.fitting.empty() && profile_.measured) {
      const auto line = train_command_line(found.fitting.front(), *profile_.measured);
      say("\nTo train with the first:\n  {}\n", line);
      all["train"] = line;
    }
    write_json(all);
    if (found.fitting.empty())
      spdlog::error("no plan fits into {} a device; the table says what would",
                    fmt::join(options_.memory, ", "));
    return found.fitting.empty() ? exit_code::failure : exit_code::success;
  }

  const plan_options& options_;
  layer_profile profile_;
};

void add_model(CLI::App& to, recipe& what, std::string& model) {
  to.add_option("--model", model, "measure this network now, gpt or mlp, and search")
    ->check(CLI::IsMember({"gpt", "mlp"}));
  to.add_option("--layers", what.layers, "of the model")->check(CLI::PositiveNumber);
  to.add_option("--width", what.width, "of the model")->check(CLI::PositiveNumber);
  to.add_option("--heads", what.heads, "of the model")->check(CLI::PositiveNumber);
  to.add_option("--length", what.length, "of a sequence of the model")->check(CLI::PositiveNumber);
  to.add_option("--precision", what.precision, "of the model's layers: float32 or bfloat16")
    ->check(CLI::IsMember({"float32", "bfloat16"}));
  to.add_option("--micro-batch-size", what.micro_batch_size, "sequences in a micro-batch")
    ->check(CLI::PositiveNumber);
}

void add_world(CLI::App& to, plan_options& options) {
  to.add_option("--forward", options.forward, "time of F of one whole stage")
    ->check(CLI::NonNegativeNumber);
  to.add_option("--backward", options.backward, "time of B, the gradient of the inputs")
    ->check(CLI::NonNegativeNumber);
  to.add_option("--weight", options.weight, "time of W; an unsplit backward takes B + W")
    ->check(CLI::NonNegativeNumber);
  to.add_option("--update", options.update, "time of an update within an asynchronous step")
    ->check(CLI::NonNegativeNumber);
  to.add_option("--link-latency", options.link_latency, "of each message between ranks")
    ->check(CLI::NonNegativeNumber);
  to.add_option("--link-bandwidth", options.link_bandwidth, "bytes per unit of time; 0: unlimited")
    ->check(CLI::NonNegativeNumber);
  to.add_option("--message-bytes", options.message_bytes, "bytes of each message")
    ->check(CLI::NonNegativeNumber);
  to.add_option("--jitter", options.jitter, "none, lognormal/SIGMA or slow/SHARE/FACTOR");
  to.add_option("--slow-rank", options.slow_ranks,
                "RANK:TIMES, as in 2:1.3: takes so many times as long; searches cut for it too")
    ->delimiter(',');
  to.add_option("--seed", options.seed, "of the jitter");
  to.add_option("--patience", options.patience,
                "how long a rank hopes for the input it wants before it takes a stand-in")
    ->check(CLI::NonNegativeNumber);
  to.add_option("--look-ahead", options.look_ahead,
                "tasks enqueued on a device beyond the one that it runs")
    ->check(CLI::NonNegativeNumber);
  to.add_option("--dispatch-time", options.dispatch_time, "of the host, for each task")
    ->check(CLI::NonNegativeNumber);
}

} // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<plan_options>();
  auto* command = app.add_subcommand("plan", "check, simulate, draw, compare and search schedules");
  command->footer("Examples:\n  sluice plan --schedule zb-h1 --stages 4 --micro-batches 12\n"
                  "  sluice plan --stages 8 --micro-batches 32 --compare 1f1b,zb-h1,zb-v --jitter "
                  "lognormal/0.3\n"
                  "  sluice plan --profile layers.json --stages 4 --memory 24GiB\n"
                  "  sluice plan --model gpt --layers 8 --stages 4 --memory 1GiB");
  command->option_defaults()->always_capture_default();
  auto& o = *options;
  auto* schedule = command->add_option("--schedule", o.schedule, "its name, or file:PATH");
  command->add_option("--plan", o.plan_file, "an explicit plan: a CSV table of actions")
    ->excludes(schedule);
  command->add_option("--stages", o.stages, "P; 0: 4, or as the file has")
    ->check(CLI::NonNegativeNumber);
  command->add_option("--micro-batches", o.micro_batches, "M; 0: twice P, or as the file has")
    ->check(CLI::NonNegativeNumber);
  command->add_option("--chunks", o.chunks, "V a stage; 0: the schedule's own")
    ->check(CLI::NonNegativeNumber);
  command->add_option("--credits", o.credits,
                      "activations a stage may hold, of one chunk each: own, a number, or auto");
  command->add_option("--receive-slots", o.receive_slots, "per link and direction; 0: unbounded")
    ->check(CLI::NonNegativeNumber);
  add_world(*command, o);
  command->add_option("--compare", o.compare, "schedules to show side by side")->delimiter(',');
  command->add_option("--memory", o.memory, "of each device, as in 24GiB, or a list: 24GiB,8GiB")
    ->delimiter(',');
  command
    ->add_option("--activation-bytes", o.activation_bytes,
                 "of one micro-batch in a whole stage, for --credits auto")
    ->check(CLI::NonNegativeNumber);
  command->add_option("--profile", o.profile,
                      "measured layers: searches for the best plan where no schedule is named");
  add_model(*command, o.measured, o.model);
  command->add_option("--device", o.device, "on which --model is measured: cpu, cuda:N");
  command->add_option("--csv", o.csv, "write the plan as a table of actions");
  command->add_option("--svg", o.svg, "write the picture");
  command->add_option("--json", o.json, "results as JSON; - for standard output [none]");
  command->add_option("--columns", o.columns, "width of the picture")->check(CLI::PositiveNumber);
  command->add_flag("--colours", o.colours, "colour the picture");
  command->callback(
    [options, schedule, &exit_code] { exit_code = planner{*options}.run(schedule->count() > 0); });
}

} // namespace sluice::cli
