#include "actors/weight_versions.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/copy.hpp"

namespace sluice::actors {

weight_versions::weight_versions(parameter_set& of, std::int32_t chunk)
  : parameters_(&of),
    chunk_(chunk) {
  kept_.push_back(of.values(chunk));
}

void weight_versions::use(std::int32_t version) {
  if (version < first_ || version > newest())
    throw std::logic_error(fmt::format("chunk {} has versions {} to {} of its weights, not {}",
                                       chunk_, first_, newest(), version));
  parameters_->set_values(chunk_, kept_[static_cast<std::size_t>(version - first_)]);
}

void weight_versions::update(kernels::stream& on, const apply& with) {
  std::vector<kernels::tensor> next;
  for (const auto& value : kept_.back()) {
    auto& copy = next.emplace_back(kernels::copied(on, value));
    copy.set_use(kernels::buffer_use::parameter);
  }
  kept_.push_back(std::move(next));
  use(newest());
  parameters_->update_chunk(on, chunk_, with);
}

void weight_versions::drop_below(std::int32_t oldest_needed) {
  while (kept_.size() > 1 && first_ < oldest_needed) {
    kept_.pop_front();
    ++first_;
  }
  peak_ = std::max(peak_, static_cast<std::int32_t>(kept_.size()));
}

} // namespace sluice::actors
