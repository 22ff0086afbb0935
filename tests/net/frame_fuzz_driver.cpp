// Runs the fuzz target without libFuzzer, and makes a seed corpus for it.
//   frame_fuzz_driver seeds FOLDER        writes what the encoders make, a file for each
//   frame_fuzz_driver run FILE...         runs the target on files, such as a finding
//   frame_fuzz_driver mutate TIMES SEED   runs it on seeds that were cut, flipped and joined

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/buffer_pool.hpp"
#include "net/frame.hpp"
#include "net/handshake.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

using namespace sluice;
using namespace sluice::net;

namespace {

using input = std::vector<std::uint8_t>;

/// An input: which decoder reads it, in pieces of what size, and the bytes.
input made(std::uint8_t choice, std::uint8_t piece, std::span<const std::byte> bytes) {
  input all{choice, piece};
  for (const auto each : bytes)
    all.push_back(std::to_integer<std::uint8_t>(each));
  return all;
}

std::vector<std::byte> bytes_of(frame what, bool checksum) {
  frame_encoder encoder;
  encoder.start(std::move(what), checksum);
  std::vector<std::byte> all;
  while (!encoder.done()) {
    const auto part = encoder.pending().front();
    all.insert(all.end(), part.begin(), part.end());
    encoder.consume(part.size());
  }
  return all;
}

std::vector<input> make_seeds() {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  const transfer what{7, payload::activation, 0, 1, 1, 3};
  const auto floats = pool.zeros(kernels::dtype::float32, {2, 3});
  const auto ids = pool.zeros(kernels::dtype::int64, {5});
  const std::vector<kernels::tensor_list> lists{{}, {floats}, {ids, {}, floats}};
  std::vector<input> seeds;
  for (const auto& tensors : lists)
    for (const bool checksum : {false, true})
      for (const std::uint8_t choice : {0, 4}) // 4: with the sums of its head made right
        seeds.push_back(
          made(choice, 255, bytes_of({frame_kind::data, what, tensors, 0}, checksum)));
  seeds.push_back(made(0, 20, bytes_of({frame_kind::leave, {}, {}, 0}, false)));
  seeds.push_back(made(1, 255, bytes_of({frame_kind::grant, {}, {}, 2}, false)));
  seeds.push_back(made(1, 3, bytes_of({frame_kind::leave, {}, {}, 0}, false)));
  seeds.push_back(made(2, 255, encode(hello{{}, edge_of(what), "F32[2, 3]"})));
  seeds.push_back(made(3, 255, encode(answer{verdict::welcome, 2, {}})));
  seeds.push_back(made(3, 7, encode(answer{verdict::another_run, 0, "the token of another run"})));
  return seeds;
}

void run(const input& bytes) {
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

/// One to four changes of an input.
input mutated(const std::vector<input>& seeds, std::mt19937_64& random) {
  const auto& any = [&]() -> const input& { return seeds[random() % seeds.size()]; };
  auto made = any();
  for (auto changes = 1 + random() % 4; changes > 0 && !made.empty(); --changes)
    switch (random() % 4) {
    case 0:
      made[random() % made.size()] ^= static_cast<std::uint8_t>(1U << random() % 8);
      break;
    case 1:
      made[random() % made.size()] = static_cast<std::uint8_t>(random());
      break;
    case 2:
      made.resize(random() % made.size());
      break;
    case 3: {
      const auto& other = any(); // A second frame behind the first, its choice left out.
      made.insert(made.end(), other.begin() + 2, other.end());
      break;
    }
    }
  return made;
}

int write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const auto& each : make_seeds()) {
    std::ofstream to(folder / ("seed-" + std::to_string(++number)), std::ios::binary);
    to.write(reinterpret_cast<const char*>(each.data()), static_cast<std::streamsize>(each.size()));
    if (!to.flush())
      throw std::runtime_error("cannot write into " + folder.string());
  }
  std::cout << number << " seeds in " << folder.string() << '\n';
  return 0;
}

int run_file(const char* name) {
  std::ifstream from(name, std::ios::binary);
  if (!from)
    throw std::runtime_error(std::string("cannot read ") + name);
  run({std::istreambuf_iterator<char>(from), {}});
  return 0;
}

int mutate(std::uint64_t times, std::uint64_t seed) {
  const auto seeds = make_seeds();
  for (const auto& each : seeds)
    run(each);
  std::mt19937_64 random(seed);
  for (std::uint64_t i = 0; i < times; ++i)
    run(mutated(seeds, random));
  std::cout << times << " inputs of seed " << seed << " were refused or taken\n";
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    const std::string_view what = argc > 2 ? argv[1] : "";
    if (what == "seeds")
      return write_seeds(argv[2]);
    if (what == "mutate" && argc == 4)
      return mutate(std::stoull(argv[2]), std::stoull(argv[3]));
    if (what == "run") {
      for (int i = 2; i < argc; ++i)
        run_file(argv[i]);
      return 0;
    }
    std::cerr << "frame_fuzz_driver seeds FOLDER | run FILE... | mutate TIMES SEED\n";
  } catch (const std::exception& problem) {
    std::cerr << "frame_fuzz_driver: " << problem.what() << '\n';
  }
  return 2;
}
