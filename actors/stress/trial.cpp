#include "actors/stress/trial.hpp"

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "actors/plan/random_plan.hpp"
#include "actors/stress/draw.hpp"

namespace sluice::stress {

using std::chrono::microseconds;

namespace {

/// What each family of draws begins with, so that none repeats another.
enum class family : std::uint64_t { trial, plan, rest, task, latency, completion };

std::uint64_t start(family of, std::uint64_t seed) {
  return draw(seed, static_cast<std::uint64_t>(of));
}

/// Mostly short times, so that a thousand trials take seconds; now and then long ones.
microseconds random_limit(std::mt19937_64& random) {
  static constexpr std::int64_t limits[] = {0, 0, 0, 0, 20, 50, 50, 100, 300, 2000};
  return microseconds{limits[random() % std::size(limits)]};
}

/// Gives each part at least one of the layers.
std::vector<std::size_t> random_cut(std::mt19937_64& random, std::int32_t layers,
                                    std::int32_t parts) {
  std::vector<std::size_t> cut(static_cast<std::size_t>(parts), 1);
  for (auto left = layers - parts; left > 0; --left)
    ++cut[random() % cut.size()];
  return cut;
}

std::uint64_t number_of(const net::transfer& what) {
  return draw(what.epoch, static_cast<std::uint64_t>(what.payload),
              static_cast<std::uint64_t>(what.from), static_cast<std::uint64_t>(what.to),
              static_cast<std::uint64_t>(what.chunk), static_cast<std::uint64_t>(what.micro_batch));
}

microseconds up_to(microseconds limit, std::uint64_t drawn) {
  return microseconds{
    static_cast<std::int64_t>(drawn % (static_cast<std::uint64_t>(limit.count()) + 1))};
}

} // namespace

std::uint64_t trial_seed(std::uint64_t run, std::uint64_t index) {
  return draw(start(family::trial, run), index) >> (64 - seed_bits);
}

trial make_trial(std::uint64_t seed) {
  std::mt19937_64 random(start(family::plan, seed));
  return make_trial(seed, plan::random_plan(random, {.asynchronous = false, .skips = false}));
}

trial make_trial(std::uint64_t seed, plan::plan of) {
  std::mt19937_64 random(start(family::rest, seed));
  const auto one_in = [&](std::uint64_t n) { return random() % n == 0; };
  trial made{.seed = seed, .plan = std::move(of)};
  made.verdict = plan::check(made.plan);
  if (one_in(3))
    made.model.of = small_model::kind::gpt;
  static constexpr std::int32_t sizes[] = {6, 12, 18};
  const auto enough =
    std::ranges::find_if(sizes, [&](std::int32_t layers) { return layers >= made.plan.parts; });
  made.model.layers = enough != std::end(sizes) ? *enough : made.plan.parts + made.plan.parts % 2;
  made.cut = random_cut(random, made.model.layers, made.plan.parts);
  // Equal micro-batches, so that two may be taken for each other, or unequal ones.
  const bool equal = !one_in(3);
  for (std::int32_t m = 0; m < made.plan.micro_batches; ++m)
    made.samples.push_back(equal ? 2 : 1 + m % 3);
  made.recompute = one_in(3);
  made.detached = one_in(2);
  made.loopback = made.plan.receive_slots > 0 || one_in(2);
  made.then_evaluates = one_in(4);
  made.times = {.task = random_limit(random),
                .latency = random_limit(random),
                .completion = random_limit(random),
                .some_slow = one_in(3)};
  return made;
}

std::chrono::nanoseconds trial::task_time(std::int32_t rank, const plan::task& which,
                                          bool split) const {
  if (times.task == microseconds{0})
    return {};
  const auto drawn =
    draw(start(family::task, seed), static_cast<std::uint64_t>(rank),
         static_cast<std::uint64_t>(which.kind), static_cast<std::uint64_t>(which.chunk),
         static_cast<std::uint64_t>(which.micro_batch), split);
  const bool slow = times.some_slow && (drawn >> 60) < 2; // Of 16: the remainder uses the rest.
  return up_to(times.task, drawn) * (slow ? 8 : 1);
}

microseconds trial::latency(const net::transfer& what) const {
  return up_to(times.latency, draw(start(family::latency, seed), number_of(what)));
}

microseconds trial::completion(const net::transfer& what) const {
  return up_to(times.completion, draw(start(family::completion, seed), number_of(what)));
}

std::string to_string(const trial& of) {
  const auto& plan = of.plan;
  std::string credits;
  for (const auto& mine : plan.by_rank)
    credits += fmt::format("{}{}", credits.empty() ? "" : ",", mine.credits);
  const auto channels = !of.loopback ? std::string("handed over in the process")
                      : plan.receive_slots > 0
                        ? fmt::format("loopback with {} receive slots", plan.receive_slots)
                        : std::string("loopback");
  return fmt::format(
    "{} with {} ranks, {} chunks, {} micro-batches, credits {}; {} of {} layers{}; "
    "{}; {} stages; up to {} us more a task{}, {} us latency, {} us until "
    "completion",
    plan.schedule, plan.ranks, plan.chunks.size(), plan.micro_batches, credits,
    of.model.of == small_model::kind::mlp ? "MLP" : "GPT", of.model.layers,
    of.recompute ? ", recomputed" : "", channels, of.detached ? "detached" : "pooled",
    of.times.task.count(), of.times.some_slow ? ", some slow," : "", of.times.latency.count(),
    of.times.completion.count());
}

std::vector<std::int32_t> sum_order(const plan::plan& of, std::int32_t route, std::int32_t part) {
  std::int32_t chunk = 0;
  for (const auto each : of.routes[static_cast<std::size_t>(route)])
    if (of.chunks[static_cast<std::size_t>(each)].part == part)
      chunk = each;
  const auto& mine =
    of.by_rank[static_cast<std::size_t>(of.chunks[static_cast<std::size_t>(chunk)].rank)];
  std::vector<std::int32_t> order;
  std::vector<std::int32_t> put_off; // split backwards whose weight gradients are still to come
  const auto catch_up = [&] {
    for (const auto& weight : mine.weights)
      if (weight.chunk == chunk && std::erase(put_off, weight.micro_batch) > 0)
        order.push_back(weight.micro_batch);
  };
  for (const auto& backward : mine.backwards) {
    if (backward.chunk != chunk)
      continue;
    if (backward.split) {
      put_off.push_back(backward.micro_batch);
    } else {
      catch_up(); // A whole backward adds to the same gradient, after them.
      order.push_back(backward.micro_batch);
    }
  }
  catch_up();
  return order;
}

} // namespace sluice::stress
