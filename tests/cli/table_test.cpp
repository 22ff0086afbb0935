#include "cli/table.hpp"

#include <array>
#include <stdexcept>

#include <doctest/doctest.h>

using namespace sluice::cli;

TEST_CASE("names stand flush left, numbers flush right, and no line ends in blanks") {
  table words{{"name", "value", ""}};
  words.add({"a", "1", ""});
  words.add({"longer", "100.25", ""});
  CHECK(words.text()
        == "name     value\n"
           "------  ------\n"
           "a            1\n"
           "longer  100.25\n");
}

TEST_CASE("a row that does not fit the headings is refused") {
  table words{{"name", "value"}};
  CHECK_THROWS_AS(words.add({"a"}), std::invalid_argument);
}

TEST_CASE("the stage report shows shares as percent and bytes as MiB") {
  const std::array rows{stage_row{.stage = 0,
                                  .layers = "0-3",
                                  .busy = 0.8768,
                                  .bubble = 0.1,
                                  .peak_activations = 4,
                                  .peak_activation_bytes = 3 << 20,
                                  .peak_bytes = 10 << 20},
                        stage_row{.stage = 1,
                                  .layers = "4-7",
                                  .busy = 1,
                                  .bubble = 0,
                                  .peak_activations = 1,
                                  .peak_activation_bytes = 512 << 10,
                                  .peak_bytes = 123 << 20}};
  CHECK(stage_table(rows)
        == "stage  layers  busy %  bubble %  peak activations  activation MiB  total MiB\n"
           "-----  ------  ------  --------  ----------------  --------------  ---------\n"
           "0         0-3    87.7      10.0                 4             3.0       10.0\n"
           "1         4-7   100.0       0.0                 1             0.5      123.0\n");
}
