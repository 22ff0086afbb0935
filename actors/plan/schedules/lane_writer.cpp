#include "actors/plan/schedules/lane_writer.hpp"

namespace sluice::plan::schedules {

lane_writer::lane_writer(const plan& of, std::int32_t rank, std::vector<lane_entry>& lane)
  : lane_{lane} {
  for (std::size_t r = 0; r < of.routes.size(); ++r)
    for (const auto chunk : of.routes[r])
      if (of.chunks[chunk].rank == rank) {
        auto& from = sources_[of.chunks[chunk].local];
        from.chunk = chunk;
        for (std::int32_t m = 0; m < of.micro_batches; ++m)
          if (of.route_of[m] == static_cast<std::int32_t>(r))
            from.micro_batches.push_back(m);
      }
}

lane_writer& lane_writer::take(std::int32_t local, std::int32_t count) {
  auto& from = sources_[local];
  for (; count > 0 && from.next < from.micro_batches.size(); --count)
    lane_.push_back({.chunk = from.chunk, .micro_batch = from.micro_batches[from.next++]});
  return *this;
}

lane_writer& lane_writer::in_turn(std::int32_t first, std::int32_t second, std::int32_t count) {
  for (; count > 0; --count)
    take(first, 1).take(second, 1);
  return *this;
}

void lane_writer::rest_in_turn(std::int32_t first, std::int32_t second) {
  while (sources_[0].next < sources_[0].micro_batches.size()
         || sources_[1].next < sources_[1].micro_batches.size())
    in_turn(first, second, 1);
}

} // namespace sluice::plan::schedules
