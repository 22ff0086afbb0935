#include "cli/session.hpp"

#include <fmt/format.h>

#include "actors/fit_memory.hpp"
#include "cli/checkpoint_dir.hpp"
#include "cli/devices.hpp"
#include "cli/failure.hpp"
#include "cli/model.hpp"
#include "cli/option_checks.hpp"
#include "cli/proposal.hpp"

namespace sluice::cli {

plan::plan plan_of(const recipe& what, const execution& how) {
  plan::plan_request wanted{.stages = how.stages, .micro_batches = what.micro_batches};
  if (how.chunks > 0)
    wanted.chunks = how.chunks;
  if (how.credits != "own" && how.credits != "auto")
    wanted.credits = parse_credits(how.credits);
  try {
    auto made = plan::make_plan(how.schedule, wanted);
    apply_proposal_options(made, how);
    return made;
  } catch (const plan::plan_error& problem) {
    throw usage_error(fmt::format("--schedule {}: {}", how.schedule, problem.what()));
  }
}

actors::pipeline start_pipeline(const recipe& what, const execution& how, plan::plan plan,
                                const hosting::muster& at) {
  const auto devices = check_devices(how.device, how.stages);
  if (how.credits == "auto" && how.memory.empty())
    throw usage_error("--credits auto fills the stages' memory: say how much it is with --memory, "
                      "as in --memory 512MiB");
  const auto layers = make_layers(what).size();
  if (static_cast<std::size_t>(plan.parts) > layers)
    throw usage_error(fmt::format("the network has {} layers, too few for {} parts: give fewer "
                                  "--stages or --chunks, or more --layers",
                                  layers, plan.parts));
  try {
    std::vector<double> costs;
    if (how.cut.empty() && plan.parts > 1)
      costs = measure_layers(what, how.threads);
    const auto schedule = make_lr_schedule(what);
    if (plan.asynchronous && (what.clip > 0 || what.tied))
      throw usage_error(
        fmt::format("--schedule {} updates within the step, without a global norm or "
                    "weights shared by stages: give --clip 0 --tied false",
                    how.schedule));
    actors::pipeline_options options{
      .plan = std::move(plan),
      .model = model_of(what),
      .cut = how.cut,
      .layer_costs = std::move(costs),
      .recompute = how.recompute,
      .recompute_ranks = how.recompute_stages,
      .update = update_of(what),
      .learning_rate = [schedule](std::uint64_t step) { return schedule.at(step); },
      .clip = what.clip,
      .seed = what.seed,
      .threads = how.threads,
      .memory_bytes = how.memory.empty() ? 0 : parse_bytes(how.memory, "memory"),
      .deadline = milliseconds_of(how.deadline),
      .placement = at.placement,
      .crew = at.crew};
    place_stages(options, devices);
    if (how.credits == "auto")
      actors::fit_credits_to_memory(options, batch_maker(what).blank(what.micro_batch_size));
    return actors::pipeline(std::move(options));
  } catch (const std::invalid_argument& problem) {
    throw usage_error(problem.what());
  }
}

std::string memory_advice(std::string_view reason) {
  if (reason.find("exceed the limit") == reason.npos)
    return "";
  return "; give more --memory, or need less of it: --recompute, more --stages, a smaller "
         "--micro-batch-size";
}

checkpoint find_checkpoint(const std::filesystem::path& place) try {
  if (std::filesystem::is_regular_file(place))
    return load_checkpoint(place);
  checkpoint newest;
  const auto found = checkpoint_dir(place).newest(
    [&](const std::filesystem::path& file) { newest = load_checkpoint(file); });
  if (!found)
    throw usage_error(fmt::format("there is no checkpoint in {}: give the folder that a run wrote "
                                  "to with --checkpoint",
                                  place.string()));
  return newest;
} catch (const usage_error&) {
  throw;
} catch (const std::runtime_error& problem) {
  throw usage_error(fmt::format("{}; give another checkpoint", problem.what()));
}

} // namespace sluice::cli
