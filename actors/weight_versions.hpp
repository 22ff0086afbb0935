#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "actors/parameter_set.hpp"
#include "kernels/stream.hpp"

namespace sluice::actors {

/// The versions of one chunk's weights that an asynchronous step still needs: version v is that
/// after v updates of the step. A micro-batch's backward uses the version of its forward, however
/// many updates have been made in between.
/// Source: Narayanan et al., PipeDream (2019): weight stashing.
class weight_versions {
public:
  /// The values that the parameters have now become version 0, the only one.
  weight_versions(parameter_set& of, std::int32_t chunk);

  /// Gives the parameters the values of a version. Errors: std::logic_error for one that is gone.
  void use(std::int32_t version);

  /// Makes the next version from the newest and the gradients summed so far.
  void update(kernels::stream& on, const apply& with);

  /// Forgets versions below `oldest_needed`, but never the newest.
  void drop_below(std::int32_t oldest_needed);

  std::int32_t newest() const { return first_ + static_cast<std::int32_t>(kept_.size()) - 1; }
  std::int32_t peak() const noexcept { return peak_; } ///< kept at once, between tasks

private:
  parameter_set* parameters_;
  std::int32_t chunk_;
  std::int32_t first_ = 0; ///< the version of the front
  std::deque<std::vector<kernels::tensor>> kept_;
  std::int32_t peak_ = 1;
};

} // namespace sluice::actors
