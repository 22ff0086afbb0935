#include "cli/toml.hpp"

#include <doctest/doctest.h>

using sluice::cli::read_toml;
using sluice::cli::toml_error;

TEST_CASE("keys have a section, a line and their values, in the order of the file") {
  const auto entries = read_toml("# comment\n"
                                 "lr = 3e-3 # rate\n"
                                 "\n"
                                 "\"quoted key\" = 'C:\\dir' \r\n"
                                 "[ train ]\n"
                                 "steps = 1_000\n"
                                 "recompute=true\n"
                                 "data = [\"a \\\"b\\\"\", 'c', # two\n"
                                 "]\n"
                                 "none = []");
  REQUIRE(entries.size() == 6);
  CHECK(entries[0].section.empty());
  CHECK(entries[0].key == "lr");
  CHECK(entries[0].values == std::vector<std::string>{"0.003"});
  CHECK(entries[0].line == 2);
  CHECK(entries[1].key == "quoted key");
  CHECK(entries[1].values == std::vector<std::string>{"C:\\dir"});
  CHECK(entries[2].section == "train");
  CHECK(entries[2].section_line == 5);
  CHECK(entries[2].values == std::vector<std::string>{"1000"});
  CHECK(entries[3].values == std::vector<std::string>{"true"});
  CHECK(entries[4].is_array);
  CHECK(entries[4].values == std::vector<std::string>{"a \"b\"", "c"});
  CHECK(entries[4].line == 8);
  CHECK(entries[5].values.empty());
  CHECK(entries[5].line == 10);
}

TEST_CASE("an empty file and one of comments have no keys") {
  CHECK(read_toml("").empty());
  CHECK(read_toml("\n \t# nothing\r\n").empty());
}

TEST_CASE("what is not TOML, or no value of an option, is refused with its line") {
  for (const std::string text :
       {"a",           "a =",       "= 1",           "a = b",     "a = 1 2",  "a = 1e",
        "a = \"x",     "a = 'x",    "a = [1",        "a = [1 2]", "[a",       "[]",
        "a = \"\\y\"", "a = 1 [b]", "ok = 2",        "a = [[1]]", "a = \"\\", "a = [,]",
        "a = _",       "a = +",     "a = 1979-05-27"}) {
    CAPTURE(text);
    try {
      read_toml("ok = 1\n" + text);
      FAIL("accepted");
    } catch (const toml_error& problem) {
      CHECK(problem.line == 2);
      CHECK(std::string(problem.what()).size() > 5);
    }
  }
}
