// Handwritten digits, 8 x 8 pixels each, learned by a network of three stages; every fifth digit is
// kept for the test. The confusion matrix goes into a picture.
//
//     $ get_digits.py digits.csv && digits digits.csv confusion.svg
//
//   64 pixels --> [ layers.0 ] --> [ layers.1 ] --> [ layers.2, head ] --> digit
//                   stage 0          stage 1             stage 2

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <sluice/kernels/nn/lr_schedule.hpp>
#include <sluice/kernels/nn/mlp.hpp>
#include <sluice/pipeline.hpp>

namespace {

constexpr std::int64_t pixels = 64;
constexpr std::size_t digits = 10;
constexpr std::int32_t micro_batches = 4;
constexpr std::int64_t rows = 16; // of a micro-batch
constexpr int epochs = 40;

struct image {
  std::array<float, pixels> grey;
  std::int32_t digit;
};
using images = std::vector<image>;
using matrix = std::array<std::array<int, digits>, digits>; ///< [truth][guess]

images read(const std::string& path) {
  std::ifstream file(path);
  images all;
  for (std::string line; std::getline(file, line);) {
    std::ranges::replace(line, ',', ' ');
    std::istringstream numbers(line);
    image each{};
    for (auto& grey : each.grey) {
      numbers >> grey;
      grey = grey / 8 - 1;
    }
    double digit = -1;
    numbers >> digit;
    each.digit = static_cast<std::int32_t>(digit);
    if (!numbers || each.digit < 0 || each.digit > 9)
      throw std::runtime_error(path + ", line " + std::to_string(all.size() + 1)
                               + ": expected 64 grey values and a digit");
    all.push_back(each);
  }
  if (all.size() < 100)
    throw std::runtime_error(path + ": no digits there; get_digits.py brings them");
  return all;
}

sluice::batch_part part_of(std::span<const image* const> chosen,
                           sluice::kernels::buffer_pool& pool) {
  const auto count = static_cast<std::int64_t>(chosen.size());
  auto features = pool.allocate(sluice::dtype::float32, {count, pixels});
  auto labels = pool.allocate(sluice::dtype::int32, {count});
  for (std::int64_t n = 0; n < count; ++n) {
    std::ranges::copy(chosen[static_cast<std::size_t>(n)]->grey,
                      features.data<float>() + n * pixels);
    labels.data<std::int32_t>()[n] = chosen[static_cast<std::size_t>(n)]->digit;
  }
  return {{features}, {labels}, count, count};
}

matrix confusion(sluice::pipeline& line, const images& test, sluice::kernels::buffer_pool& pool) {
  std::vector<const image*> all;
  for (const auto& each : test)
    all.push_back(&each);
  const auto outputs = line.predict({part_of(all, pool)});
  const auto logits = std::as_const(outputs[0][0]).span<float>();
  matrix counts{};
  for (std::size_t n = 0; n < test.size(); ++n) {
    const auto row = logits.subspan(n * digits, digits);
    const auto guess = std::ranges::max_element(row) - row.begin();
    ++counts[static_cast<std::size_t>(test[n].digit)][static_cast<std::size_t>(guess)];
  }
  return counts;
}

void write_svg(const std::string& path, const matrix& counts, double accuracy) {
  constexpr int cell = 40;
  constexpr int margin = 60;
  constexpr int size = margin + 10 * cell + 20;
  std::ofstream svg(path);
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='" << size << "' height='" << size
      << "' font-family='sans-serif' font-size='14' text-anchor='middle'>\n<rect width='100%' "
         "height='100%' fill='white'/>\n<text x='"
      << size / 2 << "' y='20'>guess (columns) and truth (rows), " << accuracy * 100
      << "% right</text>\n";
  for (int truth = 0; truth < 10; ++truth) {
    const int y = margin + truth * cell;
    svg << "<text x='" << margin / 2 << "' y='" << y + 25 << "'>" << truth << "</text>\n"
        << "<text x='" << y + cell / 2 << "' y='" << margin - 12 << "'>" << truth << "</text>\n";
    for (int guess = 0; guess < 10; ++guess) {
      const int count = counts[static_cast<std::size_t>(truth)][static_cast<std::size_t>(guess)];
      const int x = margin + guess * cell;
      const int shade = 255 - std::min(count * (truth == guess ? 4 : 40), 160);
      svg << "<rect x='" << x << "' y='" << y << "' width='" << cell << "' height='" << cell
          << "' stroke='#ddd' fill='rgb(" << (truth == guess ? shade : 255) << ","
          << (truth == guess ? 255 : shade) << "," << shade << ")'/>\n";
      if (count > 0)
        svg << "<text x='" << x + cell / 2 << "' y='" << y + 25 << "'>" << count << "</text>\n";
    }
  }
  svg << "</svg>\n";
}

} // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: digits DIGITS.csv CONFUSION.svg\n");
    return 2;
  }
  images train;
  images test;
  for (const auto& each : read(argv[1]))
    ((train.size() + test.size()) % 5 == 4 ? test : train).push_back(each);

  const auto steps_an_epoch = train.size() / (rows * micro_batches);
  const sluice::nn::lr_schedule rate{.peak = 3e-3,
                                     .warm_up_steps = 20,
                                     .total_steps = epochs * steps_an_epoch,
                                     .after_warm_up = sluice::nn::lr_schedule::shape::cosine};
  sluice::pipeline line({
    .plan = sluice::plan::make_plan("1f1b", {.stages = 3, .micro_batches = micro_batches}),
    .layers =
      [] {
        return sluice::nn::make_mlp(
          {.features = pixels, .width = 96, .layers = 3, .classes = 10, .dropout = 0.1});
      },
    .learning_rate = [rate](std::uint64_t step) { return rate.at(step); },
  });

  sluice::kernels::buffer_pool pool(sluice::kernels::make_cpu_device());
  std::vector<const image*> order;
  for (const auto& each : train)
    order.push_back(&each);
  std::mt19937_64 random(1);
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    std::ranges::shuffle(order, random);
    double loss = 0;
    for (std::size_t step = 0; step < steps_an_epoch; ++step) {
      sluice::batch data;
      for (std::size_t m = 0; m < micro_batches; ++m)
        data.push_back(
          part_of(std::span(order).subspan((step * micro_batches + m) * rows, rows), pool));
      loss += line.step(std::move(data)).loss / static_cast<double>(steps_an_epoch);
    }
    if (epoch == 1 || epoch % 5 == 0)
      std::printf("epoch %d: loss %.4f\n", epoch, loss);
  }
  const auto counts = confusion(line, test, pool);
  int right = 0;
  for (std::size_t digit = 0; digit < digits; ++digit)
    right += counts[digit][digit];
  const auto accuracy = static_cast<double>(right) / static_cast<double>(test.size());
  write_svg(argv[2], counts, accuracy);
  std::printf("%d of %zu test digits right: %.2f%%; %s\n", right, test.size(), 100 * accuracy,
              argv[2]);
} catch (const std::exception& problem) {
  std::fprintf(stderr, "digits: %s\n", problem.what());
  return 1;
}
