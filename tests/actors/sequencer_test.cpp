#include "actors/sequencer.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace sluice;

namespace {

net::offer offer(std::int32_t from, std::int32_t to, std::int32_t micro_batch) {
  return {{.from = from, .to = to, .micro_batch = micro_batch}, {}};
}

/// "0>1#0 1>0#0 | 1>2#0": groups, and what is in them.
std::string text_of(const std::vector<std::vector<net::offer>>& groups) {
  std::string text;
  for (const auto& group : groups) {
    text += text.empty() ? "" : " |";
    for (const auto& each : group)
      text += fmt::format(" {}>{}#{}", each.what.from, each.what.to, each.what.micro_batch);
  }
  return text;
}

} // namespace

TEST_CASE("transfers keep the order of their offers") {
  CHECK(text_of(actors::in_groups({offer(0, 1, 0), offer(1, 2, 0), offer(0, 1, 1)}))
        == " 0>1#0 | 1>2#0 | 0>1#1");
}

TEST_CASE("opposite transfers on one link go together, the first with the first") {
  CHECK(text_of(actors::in_groups(
          {offer(0, 1, 0), offer(0, 1, 1), offer(1, 0, 7), offer(1, 2, 0), offer(1, 0, 8)}))
        == " 0>1#0 1>0#7 | 0>1#1 1>0#8 | 1>2#0");
}

TEST_CASE("a third transfer of a link waits for a group of its own") {
  CHECK(text_of(actors::in_groups({offer(0, 1, 0), offer(1, 0, 0), offer(1, 0, 1)}))
        == " 0>1#0 1>0#0 | 1>0#1");
}
