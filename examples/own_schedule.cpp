// A schedule of one's own, as a table of what each stage runs in order: one row for each stage, F a
// forward, B a backward, with the number of the micro-batch. It is checked, drawn, compared with
// 1F1B, and trained with.
//
//     $ own_schedule [table.csv]
//
// The table here is 1F1B with one more forward ahead on each stage but the last: it holds more, and
// so waits less when tasks take uneven times.

#include <cstdio>
#include <fstream>
#include <string>

#include <sluice/actors/plan/check.hpp>
#include <sluice/actors/plan/draw.hpp>
#include <sluice/actors/plan/simulate.hpp>
#include <sluice/kernels/nn/mlp.hpp>
#include <sluice/pipeline.hpp>

namespace {

constexpr const char* eager = "0F0,0F1,0F2,0F3,0B0,0F4,0B1,0F5,0B2,0B3,0B4,0B5\n"
                              "1F0,1F1,1F2,1B0,1F3,1B1,1F4,1B2,1F5,1B3,1B4,1B5\n"
                              "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3,2F4,2B4,2F5,2B5\n";

void show(const char* name, const sluice::plan::plan& of, const sluice::plan::conditions& under) {
  const auto ran = sluice::plan::simulate(of, under);
  std::printf("%s: %.1f slots\n%s\n", name, ran.span, sluice::plan::draw_text(of, ran).c_str());
}

} // namespace

int main(int argc, char** argv) {
  std::string path = "own_schedule.csv";
  if (argc > 1)
    path = argv[1];
  else
    std::ofstream(path) << eager;

  const auto own = sluice::plan::make_plan("file:" + path, {.stages = 0, .micro_batches = 0});
  if (const auto verdict = sluice::plan::check(own); !verdict.live) {
    std::fprintf(stderr, "%s cannot finish:\n%s\n", path.c_str(), verdict.text.c_str());
    return 1;
  }
  const auto known =
    sluice::plan::make_plan("1f1b", {.stages = own.ranks, .micro_batches = own.micro_batches});
  show("own, even tasks", own, {});
  show("1f1b, even tasks", known, {});
  const sluice::plan::conditions uneven{.noise = {.sigma = 0.5}};
  show("own, uneven tasks", own, uneven);
  show("1f1b, uneven tasks", known, uneven);

  // The same weights, whatever the schedule: it says when, never what.
  sluice::kernels::buffer_pool pool(sluice::kernels::make_cpu_device());
  sluice::batch data;
  for (std::int32_t m = 0; m < own.micro_batches; ++m) {
    auto x = pool.zeros(sluice::dtype::float32, {1, 6});
    x.data<float>()[m % 6] = 1;
    auto label = pool.zeros(sluice::dtype::int32, {1});
    label.data<std::int32_t>()[0] = m % 6;
    data.push_back({{x}, {label}, 1, 1});
  }
  double losses[2];
  int which = 0;
  for (const auto& plan : {own, known}) {
    sluice::pipeline line({
      .plan = plan,
      .layers = [] { return sluice::nn::make_mlp({.features = 6, .width = 12, .layers = 5}); },
      .learning_rate = [](std::uint64_t) { return 0.02; },
    });
    for (int step = 0; step < 30; ++step)
      losses[which] = line.step(data).loss;
    ++which;
  }
  std::printf("loss after 30 steps: %.17g (own), %.17g (1f1b)\n", losses[0], losses[1]);
  return losses[0] == losses[1] ? 0 : 1;
}
