// A language model of bytes: a GPT, cut into three stages, learns a text and then continues it.
//
//     $ byte_lm book.txt 300
//
//   text --> [ embedding, h.0 ] --> [ h.1, h.2 ] --> [ h.3, head ] --> loss
//              stage 0               stage 1           stage 2

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include <sluice/kernels/nn/gpt.hpp>
#include <sluice/kernels/nn/lr_schedule.hpp>
#include <sluice/pipeline.hpp>

namespace {

constexpr std::int64_t length = 64; // bytes of a sequence
constexpr std::int64_t samples = 4; // sequences of a micro-batch
constexpr std::int32_t micro_batches = 6;

/// Sequences from random places; the target of each byte is the one after it.
sluice::batch draw(const std::string& text, std::mt19937_64& random,
                   sluice::kernels::buffer_pool& pool) {
  std::uniform_int_distribution<std::size_t> place(0, text.size() - length - 1);
  sluice::batch data;
  for (std::int32_t m = 0; m < micro_batches; ++m) {
    auto ids = pool.allocate(sluice::dtype::int32, {samples, length});
    auto targets = pool.allocate(sluice::dtype::int32, {samples, length});
    for (std::int64_t s = 0; s < samples; ++s) {
      const auto begin = place(random);
      for (std::int64_t t = 0; t < length; ++t) {
        const auto at = begin + static_cast<std::size_t>(t);
        ids.data<std::int32_t>()[s * length + t] = static_cast<unsigned char>(text[at]);
        targets.data<std::int32_t>()[s * length + t] = static_cast<unsigned char>(text[at + 1]);
      }
    }
    data.push_back({{ids}, {targets}, samples, samples * length});
  }
  return data;
}

/// Appends the bytes that the model holds likely, drawn by their probabilities.
std::string continue_text(sluice::pipeline& line, std::string text, int bytes,
                          std::mt19937_64& random, sluice::kernels::buffer_pool& pool) {
  for (int i = 0; i < bytes; ++i) {
    const auto window = text.substr(text.size() > length ? text.size() - length : 0);
    auto ids = pool.allocate(sluice::dtype::int32, {1, static_cast<std::int64_t>(window.size())});
    for (std::size_t t = 0; t < window.size(); ++t)
      ids.data<std::int32_t>()[t] = static_cast<unsigned char>(window[t]);
    const auto outputs = line.predict({{{ids}, {}, 1, 0}});
    const auto logits = std::as_const(outputs[0][0]).span<float>().last(256);
    std::vector<double> weights;
    for (const auto logit : logits)
      weights.push_back(std::exp(static_cast<double>(logit) / 0.8));
    std::discrete_distribution<int> byte(weights.begin(), weights.end());
    text.push_back(static_cast<char>(byte(random)));
  }
  return text;
}

} // namespace

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3";
  const int steps = argc > 2 ? std::atoi(argv[2]) : 300;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() <= length + 1 || steps < 1) {
    std::fprintf(stderr, "usage: byte_lm [TEXT [STEPS]], a text of more than %d bytes: %s\n",
                 static_cast<int>(length + 1), path.c_str());
    return 2;
  }
  const sluice::nn::lr_schedule rate{.peak = 3e-3,
                                     .floor = 3e-4,
                                     .warm_up_steps = 20,
                                     .total_steps = static_cast<std::uint64_t>(steps),
                                     .after_warm_up = sluice::nn::lr_schedule::shape::cosine};
  sluice::pipeline line({
    .plan = sluice::plan::make_plan("1f1b", {.stages = 3, .micro_batches = micro_batches}),
    .layers =
      [] { return sluice::nn::make_gpt({.layers = 4, .width = 64, .heads = 4, .length = length}); },
    .learning_rate = [rate](std::uint64_t step) { return rate.at(step); },
    .clip = 1,
  });
  for (std::size_t stage = 0; stage < line.parts().size(); ++stage)
    std::printf("stage %zu: %s to %s\n", stage, line.parts()[stage].front().c_str(),
                line.parts()[stage].back().c_str());

  std::mt19937_64 random(1);
  sluice::kernels::buffer_pool pool(sluice::kernels::make_cpu_device());
  for (int step = 1; step <= steps; ++step) {
    const auto report = line.step(draw(text, random, pool));
    if (step == 1 || step == steps || step % 20 == 0)
      std::printf("step %d: loss %.3f, bubble %.0f%%\n", step, report.loss, 100 * report.bubble);
  }
  std::printf("---\n%s\n", continue_text(line, "The ", 200, random, pool).c_str());
}
