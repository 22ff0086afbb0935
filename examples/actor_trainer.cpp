// Training by messages: a program that is made of actors already gets one more, the trainer.
//
//   [ loader ] -- batch --> [ driver ] -- train_batch --> [ trainer ] --> stages
//                               ^------- step_report ---------'
//
// The driver keeps two steps in flight, so that the next batch is made while one is trained on; it
// watches the trainer, and ends when it has had enough.

#include <cstdio>
#include <random>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <sluice/actors/trainer_actor.hpp>
#include <sluice/kernels/nn/mlp.hpp>

namespace {

using namespace sluice::actors;

constexpr std::int32_t micro_batches = 4;
constexpr std::int64_t rows = 8;
constexpr int steps = 60;

/// Points in the plane; the label says in which of four quadrants each lies.
std::shared_ptr<const batch> make_batch(std::uint64_t number, sluice::kernels::buffer_pool& pool) {
  std::mt19937_64 random(number);
  std::uniform_real_distribution<float> coordinate(-1, 1);
  auto data = std::make_shared<batch>();
  for (std::int32_t m = 0; m < micro_batches; ++m) {
    auto points = pool.allocate(sluice::dtype::float32, {rows, 2});
    auto labels = pool.allocate(sluice::dtype::int32, {rows});
    for (std::int64_t n = 0; n < rows; ++n) {
      const auto x = points.data<float>()[2 * n] = coordinate(random);
      const auto y = points.data<float>()[2 * n + 1] = coordinate(random);
      labels.data<std::int32_t>()[n] = (x > 0 ? 1 : 0) + (y > 0 ? 2 : 0);
    }
    data->push_back({{points}, {labels}, rows, rows});
  }
  return data;
}

/// Sends steps and takes reports; a step that fails ends it.
struct driver_state {
  driver_state(caf::event_based_actor* self, trainer_actor trainer)
    : self_(self),
      trainer_(std::move(trainer)) {}

  caf::behavior make_behavior() {
    watcher_.watch(self_, trainer_, [this](const caf::error& reason) {
      std::printf("the trainer has ended: %s\n", caf::to_string(reason).c_str());
      self_->quit();
    });
    begin_step();
    begin_step();
    return {[](caf::unit_t) {}}; // It lives by the answers to its requests.
  }

  void begin_step() {
    if (begun_ == steps)
      return;
    compat::ask(self_, trainer_, caf::infinite,
                train_batch{make_batch(static_cast<std::uint64_t>(begun_++), pool_)})
      .then([this](const step_report& report) { on_report(report); },
            [this](const caf::error& problem) {
              std::printf("step failed: %s\n", text_of(problem).c_str());
              self_->quit(problem);
            });
  }

  void on_report(const step_report& report) {
    if (report.step % 10 == 0 || report.step + 1 == steps)
      std::printf("step %d: loss %.3f\n", static_cast<int>(report.step), report.loss);
    if (report.step + 1 == steps)
      self_->quit();
    else
      begin_step();
  }

  caf::event_based_actor* self_;
  trainer_actor trainer_;
  compat::watcher watcher_;
  sluice::kernels::buffer_pool pool_{sluice::kernels::make_cpu_device()};
  int begun_ = 0;
};

} // namespace

int main() {
  register_messages(); // before the configuration is made
  caf::actor_system_config config;
  caf::actor_system system(config);
  sluice::pipeline line({
    .plan = sluice::plan::make_plan("1f1b", {.stages = 2, .micro_batches = micro_batches}),
    .layers =
      [] { return sluice::nn::make_mlp({.features = 2, .width = 16, .layers = 3, .classes = 4}); },
    .learning_rate = [](std::uint64_t) { return 0.02; },
    .system = &system,
  });
  caf::scoped_actor self{system};
  self->wait_for(system.spawn<caf::stateful_actor<driver_state>>(trainer_of(line)));
  std::printf("done\n");
}
