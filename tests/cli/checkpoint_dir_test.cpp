#include "cli/checkpoint_dir.hpp"

#include <memory>
#include <sstream>
#include <stdexcept>

#include <doctest/doctest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include "cli/atomic_file.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace sluice::cli;
using sluice::test::content_of;
using sluice::test::temporary_folder;

namespace fs = std::filesystem;

namespace {

/// Catches what is logged while it lives.
class log_catcher {
public:
  log_catcher() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_st>(said_)));
  }
  ~log_catcher() { spdlog::set_default_logger(before_); }

  bool says(std::string_view part) const { return said_.str().find(part) != std::string::npos; }

private:
  std::ostringstream said_;
  std::shared_ptr<spdlog::logger> before_;
};

void refuse_damaged(const fs::path& file) {
  if (content_of(file) == "damaged")
    throw std::runtime_error{file.string() + " is damaged"};
}

} // namespace

TEST_CASE("a checkpoint's name has its step in eight digits or more") {
  const checkpoint_dir checkpoints{"run"};
  CHECK(checkpoints.file_for(300) == "run/step-00000300.safetensors");
  CHECK(checkpoints.file_for(1'234'567'890) == "run/step-1234567890.safetensors");
}

TEST_CASE("checkpoints are listed by step, other files are not among them") {
  const temporary_folder folder;
  const checkpoint_dir checkpoints{folder.path()};
  for (const auto step : {300, 20, 1'000'000'000})
    folder.write(checkpoints.file_for(step).filename().string(), "");
  for (const auto* other : {"step-.safetensors", "step--0000001.safetensors", "notes.txt",
                            "step-00000001.safetensors.bak", "step-1x.safetensors"})
    folder.write(other, "");
  fs::create_directory(folder.path() / "step-00000007.safetensors");
  const auto found = checkpoints.list();
  REQUIRE(found.size() == 3);
  CHECK(found[0].step == 20);
  CHECK(found[1].step == 300);
  CHECK(found[2].step == 1'000'000'000);
  CHECK(found[1].file == checkpoints.file_for(300));
}

TEST_CASE("the newest checkpoint is found, and nothing in an empty or missing folder") {
  const temporary_folder folder;
  const checkpoint_dir checkpoints{folder.path()};
  CHECK_FALSE(checkpoints.newest(refuse_damaged).has_value());
  CHECK_FALSE(checkpoint_dir{folder.path() / "nowhere"}.newest(refuse_damaged).has_value());
  folder.write("step-00000009.safetensors", "");
  folder.write("step-00000010.safetensors", "");
  CHECK(checkpoints.newest(refuse_damaged)->step == 10);
}

TEST_CASE("a damaged checkpoint is passed over with a word, and refused when there is no other") {
  const temporary_folder folder;
  const checkpoint_dir checkpoints{folder.path()};
  folder.write("step-00000010.safetensors", "damaged");
  CHECK_THROWS_WITH_AS(checkpoints.newest(refuse_damaged),
                       doctest::Contains("step-00000010.safetensors is damaged"),
                       std::runtime_error);
  folder.write("step-00000009.safetensors", "");
  const log_catcher log;
  CHECK(checkpoints.newest(refuse_damaged)->step == 9);
  CHECK(log.says("passing over a damaged checkpoint"));
  CHECK(log.says("step-00000010.safetensors"));
}

TEST_CASE("what a killed run left behind is ignored with a word, and goes with the next run") {
  const temporary_folder folder;
  checkpoint_dir checkpoints{folder.path()};
  const atomic_file left{checkpoints.file_for(5)}; // alive here, as if its process were not
  const atomic_file foreign{folder.path() / "notes.txt"};
  {
    const log_catcher log;
    CHECK_FALSE(checkpoints.newest(refuse_damaged).has_value());
    CHECK(log.says(left.temporary().filename().string()));
    CHECK(log.says("left by a run that was stopped while saving"));
  }
  checkpoints.prepare();
  CHECK_FALSE(fs::exists(left.temporary()));
  CHECK(fs::exists(foreign.temporary()));
}

TEST_CASE("two runs cannot have one folder at once") {
  const temporary_folder folder;
  {
    checkpoint_dir mine{folder.path()};
    mine.prepare();
    checkpoint_dir theirs{folder.path()};
    CHECK_THROWS_WITH_AS(theirs.prepare(), doctest::Contains("another run is writing"),
                         std::runtime_error);
  }
  checkpoint_dir later{folder.path()};
  CHECK_NOTHROW(later.prepare());
}

TEST_CASE("the newest few stay, older ones go") {
  const temporary_folder folder;
  const checkpoint_dir checkpoints{folder.path(), 2};
  folder.write("notes.txt", "");
  for (const auto step : {10, 20, 30, 40})
    folder.write(checkpoints.file_for(step).filename().string(), "");
  checkpoints.prune();
  REQUIRE(checkpoints.list().size() == 2);
  CHECK(checkpoints.list()[0].step == 30);
  CHECK(fs::exists(folder.path() / "notes.txt"));
}

TEST_CASE("at least one checkpoint stays, whatever is asked for") {
  const temporary_folder folder;
  const checkpoint_dir checkpoints{folder.path(), 0};
  folder.write("step-00000001.safetensors", "");
  checkpoints.prune();
  CHECK(checkpoints.list().size() == 1);
}

TEST_CASE("the folder is made before the first step, or the message says why not") {
  const temporary_folder folder;
  checkpoint_dir{folder.path() / "a" / "b"}.prepare();
  CHECK(fs::is_directory(folder.path() / "a" / "b"));
  const auto file = folder.write("file", "");
  CHECK_THROWS_WITH_AS(checkpoint_dir{file}.prepare(), doctest::Contains("--checkpoint"),
                       std::runtime_error);
}
