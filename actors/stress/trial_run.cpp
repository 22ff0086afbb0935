#include "actors/stress/trial_run.hpp"

#include <random>

#include <fmt/format.h>

#include "actors/pipeline.hpp"
#include "actors/plan/random_plan.hpp"
#include "actors/stress/draw.hpp"
#include "actors/stress/judge.hpp"
#include "net/local.hpp"
#include "net/loopback.hpp"

namespace sluice::stress {

using namespace std::chrono_literals;

namespace {

using trial_ptr = std::shared_ptr<const trial>;

/// A dead plan stalls for certain, so there is no need to wait for long.
constexpr auto short_deadline = 100ms;

/// Dead plans and finished ones that are also seen to stall, or to finish, elsewhere: one in ...
constexpr std::uint64_t real_stalls = 32;
constexpr std::uint64_t simulated_finishes = 8;

std::shared_ptr<net::network> network_for(const trial_ptr& of) {
  const auto ends = of->plan.ranks + 1;
  if (!of->loopback)
    return net::make_local_network(ends);
  constexpr std::int32_t enough = 1 << 20;
  return net::make_loopback_network(
    ends, {.slots = of->plan.receive_slots > 0 ? of->plan.receive_slots : enough,
           .latency = [of](const net::transfer& what) { return of->latency(what); },
           .completion = [of](const net::transfer& what) { return of->completion(what); },
           .poison = true});
}

actors::pipeline_options options_for(const trial_ptr& of, const trial_world& in) {
  actors::pipeline_options options;
  options.plan = of->plan;
  break_plan(options.plan, in.bug, of->seed);
  options.refuse_dead_plans = in.bug == seeded_bug::none;
  options.layers = [model = of->model] { return model.make(); };
  options.cut = of->cut;
  options.recompute = of->recompute;
  options.optimizer = small_optimizer();
  options.learning_rate = [](std::uint64_t) { return small_learning_rate; };
  options.clip = small_clip;
  options.seed = small_seed;
  options.deadline = in.deadline;
  options.network = break_network(network_for(of), in.bug, of->plan.ranks, of->seed);
  options.extra_time = [of](std::int32_t rank, const plan::task& which, bool split) {
    return caf::timespan{of->task_time(rank, which, split)};
  };
  options.detached = of->detached;
  options.system = &in.system;
  return options;
}

bool simulation_finishes(const trial& of) {
  std::mt19937_64 random(of.seed);
  return plan::simulate(of.plan, plan::random_timing(of.plan, random)).finished;
}

/// Whether the plan stalls without bounded receive slots too. Those are the channel's business in
/// the actors: an output that lacks one waits there, not its task.
bool stalls_whatever_the_slots(plan::plan of) {
  of.receive_slots = 0;
  return !plan::check(of).live;
}

std::string run_dead(const trial_ptr& of, const trial_world& in) {
  if (simulation_finishes(*of))
    return "liveness: the checker refuses a plan that a simulation finishes";
  try {
    actors::pipeline line(options_for(of, in));
    return "liveness: a plan that cannot finish was not refused";
  } catch (const std::invalid_argument&) {
    // As it should be.
  }
  if (draw(of->seed) % real_stalls != 0 || !stalls_whatever_the_slots(of->plan))
    return {};
  auto options = options_for(of, in);
  options.refuse_dead_plans = false;
  options.deadline = short_deadline;
  actors::pipeline line(std::move(options));
  try {
    line.train(batch_of(*of, 0));
    return "liveness: the checker refuses a plan that the actors finish";
  } catch (const actors::pipeline_error& problem) {
    const std::string_view text = problem.what();
    return text.find("no progress") != text.npos ? std::string{} : "error: " + std::string(text);
  }
}

std::string run_live(const trial_ptr& of, const trial_world& in) {
  if (draw(of->seed) % simulated_finishes == 0 && !simulation_finishes(*of))
    return "liveness: a simulation stalls on a plan that the checker accepts";
  const auto expected = in.references.of(*of);
  actors::pipeline line(options_for(of, in));
  for (int step = 0; step < steps; ++step) {
    const auto report = line.train(batch_of(*of, step));
    for (auto wrong : {order_complaint(of->plan, report), memory_complaint(*of, report),
                       step_complaint(expected->steps[static_cast<std::size_t>(step)], report)})
      if (!wrong.empty())
        return wrong;
  }
  if (auto wrong = state_complaint(*expected, *line.state()); !wrong.empty())
    return wrong;
  if (!of->then_evaluates)
    return {};
  const auto loss = line.evaluate(batch_of(*of, steps)).loss;
  if (loss != expected->evaluation)
    return fmt::format("exactness: the evaluation gives {:a}, the serial run {:a}", loss,
                       expected->evaluation);
  return prediction_complaint(*expected, line.predict(batch_of(*of, steps)));
}

} // namespace

std::string run_trial(trial_ptr of, const trial_world& in) {
  try {
    // A seeded bug is one of a plan that was accepted.
    if (!of->verdict.live)
      return in.bug == seeded_bug::none ? run_dead(of, in) : std::string{};
    return run_live(of, in);
  } catch (const actors::pipeline_error& problem) {
    const std::string text = problem.what();
    return (text.find("no progress") != text.npos ? "liveness: " : "error: ") + text;
  } catch (const std::exception& problem) {
    return std::string("error: ") + problem.what();
  }
}

} // namespace sluice::stress
