#include "cli/text_data.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/temporary_folder.hpp"

using namespace sluice::cli;
using sluice::test::temporary_folder;

namespace fs = std::filesystem;

namespace {

/// Bytes 0, 1, 2, ... so that a token's value tells its place.
std::string counting_text(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i)
    text[i] = static_cast<char>(i);
  return text;
}

} // namespace

TEST_CASE("a target is the byte after its input, and bytes above 127 are positive") {
  const byte_text text{counting_text(256), 16};
  token_batch batch;
  text.sample(1, 0, 20, batch);
  REQUIRE(batch.inputs.size() == 20 * 16);
  REQUIRE(batch.targets.size() == 20 * 16);
  bool high = false;
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    CHECK(batch.targets[i] == batch.inputs[i] + 1);
    high = high || batch.inputs[i] > 127;
  }
  CHECK(high);
}

TEST_CASE("a sample depends on seed, step and its own number alone") {
  const byte_text text{counting_text(256), 8};
  token_batch few, many, other;
  text.sample(7, 3, 2, few);
  text.sample(7, 3, 5, many);
  CHECK(std::ranges::equal(few.inputs, std::span{many.inputs}.first(16)));
  text.sample(7, 4, 2, other);
  CHECK(few.inputs != other.inputs);
  text.sample(8, 3, 2, other);
  CHECK(few.inputs != other.inputs);
  text.sample(7, 3, 2, other);
  CHECK(few.inputs == other.inputs);
}

TEST_CASE("the drawn places are fixed for all time: resumed runs and references rely on them") {
  const byte_text text{counting_text(256), 8};
  token_batch batch;
  text.sample(42, 0, 6, batch);
  std::vector<std::int32_t> starts;
  for (std::size_t i = 0; i < batch.samples; ++i)
    starts.push_back(batch.inputs[i * 8]);
  CHECK(starts == std::vector<std::int32_t>{86, 158, 193, 37, 5, 41});
}

TEST_CASE("every place of the training part is drawn, about equally often") {
  const byte_text text{counting_text(100), 9}; // 90 bytes to train on, 81 starts
  token_batch batch;
  std::array<int, 81> drawn{};
  for (std::uint64_t step = 0; step < 81; ++step) {
    text.sample(5, step, 100, batch);
    for (std::size_t i = 0; i < batch.samples; ++i)
      ++drawn.at(static_cast<std::size_t>(batch.inputs[i * 9]));
  }
  const auto [fewest, most] = std::ranges::minmax(drawn);
  CHECK(fewest > 50); // 100 expected; 5 standard deviations are 50
  CHECK(most < 150);
}

TEST_CASE("the held-out tenth comes in order, side by side, and is never drawn for training") {
  const byte_text text{counting_text(240), 5};
  CHECK(text.training_bytes() == 216);
  CHECK(text.held_out_bytes() == 24);
  REQUIRE(text.held_out_sequences() == 4); // 24 bytes: four times five and one target more
  token_batch batch;
  text.held_out(0, 3, batch);
  CHECK(batch.samples == 3);
  CHECK(batch.inputs.front() == 216);
  CHECK(batch.targets.back() == 216 + 15);
  text.held_out(3, 3, batch);
  CHECK(batch.samples == 1);
  CHECK(batch.inputs.front() == 216 + 15);
  text.held_out(9, 3, batch);
  CHECK(batch.samples == 0);
  for (std::uint64_t step = 0; step < 100; ++step) {
    text.sample(1, step, 10, batch);
    CHECK(std::ranges::max(batch.targets) < 216);
  }
}

TEST_CASE("a long text holds out the end of each of its stretches, from all over the text") {
  std::string bytes(1000, '\0'); // three stretches of 333: 300 to train on and 33 held out
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(i / 4); // a value tells the place to 4 bytes
  const byte_text text{bytes, 7};
  CHECK(text.held_out_bytes() == 99);
  CHECK(text.training_bytes() == 901);
  REQUIRE(text.held_out_sequences() == 12);
  token_batch batch;
  text.held_out(0, 12, batch);
  const auto first_of = [&](std::size_t sequence) { return batch.inputs[sequence * 7]; };
  CHECK(first_of(0) == 300 / 4);
  CHECK(first_of(1) == 633 / 4);
  CHECK(first_of(2) == 967 / 4);
  CHECK(first_of(3) == 307 / 4);
  CHECK(batch.targets.back() == (967 + 4 * 7) / 4);
  std::set<std::int32_t> drawn;
  for (std::uint64_t step = 0; step < 100; ++step) {
    text.sample(1, step, 20, batch);
    drawn.insert(batch.inputs.begin(), batch.inputs.end());
    drawn.insert(batch.targets.begin(), batch.targets.end());
  }
  for (std::int32_t place = 0; place < 250; ++place) { // those that lie in one part as a whole
    const bool held = (place >= 75 && place < 83) || (place >= 159 && place < 166) || place >= 242;
    const bool borders = place == 83 || place == 158 || place == 166 || place == 241;
    if (!borders)
      CHECK(drawn.contains(place) != held);
  }
}

TEST_CASE("a short text holds out one sequence, and none when it has no two") {
  CHECK(byte_text{counting_text(12), 5}.held_out_sequences() == 1);
  CHECK(byte_text{counting_text(12), 5}.training_bytes() == 6);
  CHECK(byte_text{counting_text(11), 5}.held_out_sequences() == 0);
  token_batch batch;
  byte_text{counting_text(6), 5}.sample(1, 1, 2, batch);
  CHECK(batch.inputs == std::vector<std::int32_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
}

TEST_CASE("texts are told apart by their fingerprint") {
  const auto print = [](std::string text) { return byte_text{std::move(text), 2}.fingerprint(); };
  const std::set prints{print("abcdefghij"), print("abcdefghik"), print("bbcdefghij"),
                        print("abcdefghi"), print(std::string("abcdefghi\0", 10))};
  CHECK(prints.size() == 5);
  CHECK(print("abcdefghij") == print("abcdefghij"));
}

TEST_CASE("files are joined in the order given") {
  const temporary_folder folder;
  const std::array files{folder.write("b", "hello "), folder.write("a", "world")};
  const auto text = byte_text::load(files, 10);
  token_batch batch;
  text.sample(0, 0, 1, batch);
  CHECK(std::string(batch.inputs.begin(), batch.inputs.end()) == "hello worl");
}

TEST_CASE("a text that cannot be used is refused with its name and what to do") {
  const temporary_folder folder;
  const auto refusal = [](const fs::path& file, std::size_t length = 8) -> std::string {
    try {
      byte_text::load(std::array{file}, length);
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  const auto at = [&](std::string_view name) { return (folder.path() / name).string(); };
  folder.write("empty", "");
  folder.write("short", "12345678");
  CHECK(refusal(folder.path() / "none")
        == "cannot find the text " + at("none") + "; give the path of a text file with --data");
  CHECK(refusal(folder.path() / "empty")
        == at("empty") + " is empty; give a file with text in it with --data");
  CHECK(refusal(folder.path())
        == folder.path().string() + " is a folder; name the text files in it, as in --data "
             + at("*.txt"));
  CHECK(refusal(folder.path() / "short")
        == at("short")
             + " has 8 bytes, but one sequence of length 8 needs 9; give a longer text with --data "
               "or a smaller --length");
  CHECK(refusal("/dev/zero").starts_with("/dev/zero is not a regular file"));
  CHECK(refusal(folder.path() / "short", 7).empty());
}

TEST_CASE("the default text is each licence once, by name, without links") {
  const temporary_folder folder;
  folder.write("licences/B", "second");
  folder.write("licences/A", "first");
  folder.write("licences/C", "first");
  folder.write("licences/D", "");
  fs::create_symlink("B", folder.path() / "licences/AA");
  const auto files = default_text_files(folder.path(), folder.path() / "licences");
  CHECK(files == std::vector{folder.path() / "licences/A", folder.path() / "licences/B"});
}

TEST_CASE("without licences the default text is the project's own, without that a clear message") {
  const temporary_folder folder;
  const auto nowhere = folder.path() / "nowhere";
  CHECK_THROWS_WITH_AS(default_text_files(folder.path(), nowhere),
                       doctest::Contains("name a file with --data"), std::runtime_error);
  folder.write("README.md", "read me");
  folder.write("docs/b.md", "b");
  folder.write("docs/a.md", "a");
  folder.write("docs/a.svg", "not text");
  CHECK(default_text_files(folder.path(), nowhere)
        == std::vector{folder.path() / "README.md", folder.path() / "docs/a.md",
                       folder.path() / "docs/b.md"});
}
