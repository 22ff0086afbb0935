#pragma once

#include <array>
#include <cstdint>

#include "actors/plan/plan.hpp"

namespace sluice::plan::schedules {

/// Writes a lane as papers describe it: "three of chunk 0, then chunk 1 and chunk 0 in turn". For
/// ranks with two chunks. A chunk that has run out of micro-batches is passed over, so that the
/// description holds for any number of them, however small.
class lane_writer {
public:
  /// For the lane of a rank; its chunks are meant by their numbers on the rank, 0 and 1.
  lane_writer(const plan& of, std::int32_t rank, std::vector<lane_entry>& lane);

  /// The next `count` micro-batches of a chunk, or as many as are left.
  lane_writer& take(std::int32_t local, std::int32_t count);

  /// `count` times one micro-batch of the first and one of the second chunk.
  lane_writer& in_turn(std::int32_t first, std::int32_t second, std::int32_t count);

  /// The two chunks in turn until both have run out.
  void rest_in_turn(std::int32_t first, std::int32_t second);

private:
  struct source {
    std::int32_t chunk = 0;
    std::vector<std::int32_t> micro_batches = {};
    std::size_t next = 0;
  };

  std::array<source, 2> sources_;
  std::vector<lane_entry>& lane_;
};

} // namespace sluice::plan::schedules
