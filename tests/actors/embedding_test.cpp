#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "actors/stress/serial_run.hpp"
#include "actors/trainer_actor.hpp"
#include "kernels/nn/init.hpp"
#include "kernels/nn/mlp.hpp"
#include "tests/support/port_modules.hpp"
#include "tests/support/recording_network.hpp"

// The three levels at which a program embeds a pipeline: it calls it, it messages it, it extends
// it.

using namespace sluice;
using namespace sluice::tests;

namespace {

constexpr int micro_batches = 4;

pipeline_options options_for(int stages, const char* schedule = "1f1b") {
  return {
    .plan = plan::make_plan(schedule, {.stages = stages, .micro_batches = micro_batches}),
    .layers = [] { return nn::make_mlp({.features = 4, .width = 6, .layers = 5, .classes = 3}); }};
}

batch data_of(int count = micro_batches) {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  batch data;
  for (int m = 0; m < count; ++m) {
    auto x = pool.allocate(dtype::float32, {2, 4});
    fill_initial(x, nn::normal(1), 7, std::to_string(m));
    auto labels = pool.zeros(dtype::int32, {2});
    labels.data<std::int32_t>()[m % 2] = m % 3;
    data.push_back({{x}, {labels}, 2, 2});
  }
  return data;
}

std::shared_ptr<const batch> shared_data(int count = micro_batches) {
  return std::make_shared<const batch>(data_of(count));
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const pipeline_error& problem) {
    return problem.what();
  }
  return {};
}

bool says(const std::string& text, std::string_view what) {
  return text.find(what) != std::string::npos;
}

} // namespace

// -- call it -----------------------------------------------------------------------------------

TEST_CASE("steps begun without waiting run in their order, with the same reports and weights") {
  pipeline waits(options_for(3));
  pipeline later(options_for(3));
  std::vector<std::future<step_report>> begun;
  for (int step = 0; step < 5; ++step)
    begun.push_back(later.step_later(data_of()));
  const auto state = later.state(); // comes in its turn, after all of them
  CHECK(state->step == 5);
  for (std::uint64_t step = 0; step < 5; ++step) {
    const auto expected = waits.step(data_of());
    const auto got = begun[step].get();
    CHECK(got.step == step);
    CHECK(got.loss == expected.loss);
  }
  CHECK((stress::bytes_of(*state) == stress::bytes_of(*waits.state())));
}

TEST_CASE(
  "a step begun without waiting gives its error to the future, also when the pipeline goes") {
  pipeline line(options_for(2));
  auto wrong = line.step_later(data_of(micro_batches - 1));
  CHECK_THROWS_WITH_AS(wrong.get(), doctest::Contains("4 micro-batches a step, the batch has 3"),
                       pipeline_error);
  CHECK_NOTHROW(line.step_later(data_of()).get());
  std::shared_future<step_report> orphan;
  std::thread opener;
  std::promise<void> go; // The first task waits until the pipeline is going.
  {
    auto gate = go.get_future().share();
    auto options = options_for(2);
    options.events.before_task = [gate](const actors::task_event&) { gate.wait(); };
    pipeline gone(std::move(options));
    gone.step_later(data_of());
    orphan = gone.step_later(data_of()).share();
    opener = std::thread([&] {
      orphan.wait();
      go.set_value();
    });
  }
  opener.join();
  CHECK(says(error_of([&] { orphan.get(); }), "the pipeline has ended"));
}

TEST_CASE("evaluations between steps drive all stages and change nothing") {
  pipeline mixed(options_for(3));
  pipeline plain(options_for(1));
  for (int step = 0; step < 3; ++step) {
    const auto before = mixed.evaluate(data_of(7));
    CHECK(before.stages.size() == 3);
    CHECK(before.loss == plain.evaluate(data_of(7)).loss);
    CHECK(mixed.step(data_of()).loss == plain.step(data_of()).loss);
    CHECK(mixed.predict(data_of(2)).size() == 2);
  }
  CHECK((stress::bytes_of(*mixed.state()) == stress::bytes_of(*plain.state())));
}

// -- message it --------------------------------------------------------------------------------

namespace {

/// An embedder's own actor system, with Sluice in it.
struct own_system {
  own_system() {
    actors::register_messages();
    system = std::make_unique<caf::actor_system>(config);
  }
  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
};

} // namespace

TEST_CASE("an embedder's actor sends steps to the typed trainer and gets typed answers") {
  own_system own;
  pipeline reference(options_for(2));
  auto options = options_for(2);
  options.system = own.system.get();
  pipeline line(std::move(options));
  caf::scoped_actor self{*own.system};
  std::vector<double> losses;
  auto driver =
    own.system->spawn([&, trainer = actors::trainer_of(line)](caf::event_based_actor* actor) {
      for (int step = 0; step < 3; ++step)
        actors::compat::ask(actor, trainer, caf::infinite, actors::train_batch{shared_data()})
          .then([&losses](step_report& report) { losses.push_back(report.loss); });
    });
  self->wait_for(driver); // It ends when it waits for nothing more.
  REQUIRE(losses.size() == 3);
  for (const auto loss : losses)
    CHECK(loss == reference.step(data_of()).loss);

  std::string text;
  actors::compat::ask(self.ptr(), actors::trainer_of(line), caf::infinite,
                      actors::train_batch{shared_data(2)})
    .receive([](step_report&) {},
             [&](const caf::error& problem) { text = actors::text_of(problem); });
  CHECK(says(text, "the plan runs 4 micro-batches a step, the batch has 2"));
  actors::compat::ask(self.ptr(), actors::trainer_of(line), caf::infinite, actors::fetch_state{})
    .receive([](actors::model_state_ptr& state) { CHECK(state->step == 3); },
             [](const caf::error& problem) { FAIL(actors::text_of(problem)); });
}

TEST_CASE("who watches the trainer hears of its end, and who is linked to it ends too") {
  own_system own;
  auto options = options_for(2);
  options.system = own.system.get();
  auto line = std::make_unique<pipeline>(std::move(options));
  caf::scoped_actor self{*own.system};
  const auto linked = own.system->spawn(
    [trainer = actors::trainer_of(*line)](caf::event_based_actor* actor) -> caf::behavior {
      actor->link_to(trainer);
      return {[](int) {}};
    });
  line->step(data_of());
  self->monitor(linked);
  self->monitor(line->trainer());
  line.reset();
  int ended = 0;
  while (ended < 2)
    self->receive([&](const caf::down_msg& down) {
      CHECK(down.reason == caf::exit_reason::user_shutdown);
      ++ended;
    });
}

// -- extend it ---------------------------------------------------------------------------------

TEST_CASE("callbacks come before and after each task, with ready gradients, and after the step") {
  constexpr int stages = 3;
  auto options = options_for(stages, "zb-h1");
  std::mutex guard;
  std::map<std::int32_t, std::vector<plan::task>> before;
  std::map<std::int32_t, std::vector<plan::task>> after;
  std::map<std::int32_t, std::size_t> ready;
  std::vector<double> losses;
  options.events = {
    .before_task =
      [&](const actors::task_event& event) {
        const std::lock_guard lock(guard);
        CHECK(before[event.rank].size() == after[event.rank].size());
        before[event.rank].push_back(event.what);
      },
    .after_task =
      [&](const actors::task_event& event) {
        const std::lock_guard lock(guard);
        after[event.rank].push_back(event.what);
      },
    .gradients_ready =
      [&](std::int32_t rank, nn::parameter_list parameters) {
        const std::lock_guard lock(guard);
        ready[rank] += parameters.size();
      },
    .step_done = [&](const step_report& report) { losses.push_back(report.loss); },
  };
  pipeline line(std::move(options));
  const auto report = line.step(data_of());
  CHECK(losses == std::vector{report.loss});
  CHECK(before == after);
  std::size_t parameters = 0;
  for (std::int32_t rank = 0; rank < stages; ++rank) {
    REQUIRE(before[rank].size() == report.tasks[static_cast<std::size_t>(rank)].size());
    for (std::size_t i = 0; i < before[rank].size(); ++i)
      CHECK(before[rank][i] == report.tasks[static_cast<std::size_t>(rank)][i].what);
    parameters += ready[rank];
  }
  CHECK(parameters == 12);
}

TEST_CASE("a callback may change the gradients before norm and update see them") {
  auto options = options_for(2);
  options.optimizer = nn::make_sgd();
  auto doubled = options;
  doubled.events.gradients_ready = [](std::int32_t, nn::parameter_list parameters) {
    for (auto& each : parameters)
      for (auto& element : each.gradient.span<float>())
        element *= 2;
  };
  doubled.learning_rate = [](std::uint64_t) { return 0.5e-3; };
  pipeline plain(std::move(options));
  pipeline changed(std::move(doubled));
  CHECK(2 * plain.step(data_of()).gradient_norm == changed.step(data_of()).gradient_norm);
  CHECK((stress::bytes_of(*plain.state()) == stress::bytes_of(*changed.state())));
}

TEST_CASE("a callback that throws fails the step by name, and the pipeline goes on, however many "
          "tasks are enqueued ahead") {
  auto options = options_for(3);
  for (auto& rank : options.plan.by_rank)
    rank.look_ahead = 0;
  SUBCASE("none") {}
  SUBCASE("one") {
    for (auto& rank : options.plan.by_rank)
      rank.look_ahead = 1;
  }
  SUBCASE("two") {
    for (auto& rank : options.plan.by_rank)
      rank.look_ahead = 2;
  }
  std::atomic<bool> angry{true};
  options.events.after_task = [&](const actors::task_event& event) {
    if (angry && event.rank == 1 && event.what.micro_batch == 2)
      throw std::runtime_error("no more of this");
  };
  pipeline line(std::move(options));
  CHECK(says(error_of([&] { line.step(data_of()); }), "rank 1: F2 of chunk 1: no more of this"));
  angry = false;
  CHECK(line.step(data_of()).step == 0); // the failed one is not counted
}

namespace {

/// The textbook's update: value -= rate * sign of the gradient.
class sign_descent final : public nn::optimizer {
public:
  std::span<const std::string_view> state_names() const noexcept override { return {}; }
  void step(stream&, nn::parameter& what, std::span<tensor>, double learning_rate, std::uint64_t,
            double) const override {
    const auto value = what.value.span<float>();
    const auto gradient = what.gradient.span<float>();
    for (std::size_t i = 0; i < value.size(); ++i)
      value[i] -= static_cast<float>(learning_rate)
                * static_cast<float>((gradient[i] > 0) - (gradient[i] < 0));
  }
};

/// y = weight * x, with a whole backward in place of two halves.
class whole_gain {
public:
  explicit whole_gain(gain halves) : halves_(std::move(halves)) {}
  const module_ports& ports() const { return halves_.ports(); }
  std::vector<parameter*> parameters() { return halves_.parameters(); }
  void initialise(stream& on, std::uint64_t seed) { halves_.initialise(on, seed); }
  tensor_list forward(stream& on, const micro_batch& which, tensor_list inputs, activation& save) {
    return halves_.forward(on, which, std::move(inputs), save);
  }
  tensor_list backward(stream& on, const micro_batch& which, tensor_list gradients,
                       activation& saved) {
    auto results = halves_.backward_input(on, which, std::move(gradients), saved);
    halves_.backward_weight(on, which, saved);
    return results;
  }

private:
  gain halves_;
};

template <class Gain>
pipeline_options own_parts(const char* schedule, int stages) {
  return {
    .plan = plan::make_plan(schedule, {.stages = stages, .micro_batches = micro_batches}),
    .layers =
      [] {
        std::vector<nn::module_ptr> layers;
        const auto add = [&](const char* name, module_ports ports) {
          layers.push_back(nn::make_module(name, Gain(gain(name, 4, std::move(ports)))));
        };
        add("a", {{{"x"}}, {{"h"}}});
        add("b", {});
        add("c", {});
        layers.push_back(nn::make_module("loss", distance("h", "y")));
        return layers;
      },
    .values = {.inputs = {"x"}, .targets = {"y"}},
    .optimizer = std::make_shared<const sign_descent>(),
    .learning_rate = [](std::uint64_t) { return 0.01; },
  };
}

} // namespace

TEST_CASE("own modules, whole or split, and an own optimizer train alike under every schedule") {
  auto data = data_of();
  for (auto& part : data)
    part.targets = part.inputs;
  const auto train = [&](pipeline_options options) {
    pipeline line(std::move(options));
    const auto first = line.step(data).loss;
    for (int step = 0; step < 4; ++step)
      line.step(data);
    CHECK(line.step(data).loss < first);
    return stress::bytes_of(*line.state());
  };
  const auto expected = train(own_parts<gain>("gpipe", 1));
  for (const char* schedule : {"1f1b", "zb-h1"})
    for (const int stages : {2, 4}) {
      CAPTURE(schedule);
      CAPTURE(stages);
      CHECK((train(own_parts<gain>(schedule, stages)) == expected));
      CHECK((train(own_parts<whole_gain>(schedule, stages)) == expected));
    }
}

TEST_CASE("all tensors go through a network of the embedder's own") {
  auto options = options_for(3);
  const auto network = std::make_shared<recording_network>(4);
  options.network = network;
  pipeline line(std::move(options));
  line.step(data_of());
  CHECK(network->of(net::payload::input).size() == micro_batches);
  CHECK(network->of(net::payload::activation).size() == 2 * micro_batches);
  CHECK(network->of(net::payload::gradient).size() == 2 * micro_batches);
}
