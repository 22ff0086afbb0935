#include "actors/plan/credits.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "actors/plan/make_plan.hpp"

namespace sluice::plan {

void fit_credits(plan& of, std::span<const double> activation_bytes,
                 std::span<const double> budget_bytes) {
  std::vector<double> largest(of.ranks);
  for (std::size_t c = 0; c < of.chunks.size(); ++c)
    largest[of.chunks[c].rank] = std::max(largest[of.chunks[c].rank], activation_bytes[c]);
  for (std::int32_t r = 0; r < of.ranks; ++r) {
    auto& mine = of.by_rank[r];
    const auto forwards = static_cast<std::int32_t>(mine.forwards.size());
    const auto own = std::min(mine.credits, forwards);
    if (own * largest[r] > budget_bytes[r])
      throw plan_error(fmt::format("{} holds {} activations of {:.0f} bytes on rank {}, but there "
                                   "is room for {:.0f} bytes",
                                   of.schedule, own, largest[r], r, budget_bytes[r]));
    if (!mine.order.empty() || largest[r] <= 0)
      continue;
    const auto room = std::floor(budget_bytes[r] / largest[r]);
    const auto credits = static_cast<std::int32_t>(std::min<double>(room, forwards));
    if (credits > mine.credits) {
      mine.stand_in = true;
      mine.credits = credits;
    }
  }
}

} // namespace sluice::plan
