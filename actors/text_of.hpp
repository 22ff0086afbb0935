#pragma once

#include <string>

#include <caf/error.hpp>
#include <caf/message.hpp>

namespace sluice::actors {

/// The text that an error carries, or else what its code says.
inline std::string text_of(const caf::error& problem) {
  if (problem.context().match_elements<std::string>())
    return problem.context().get_as<std::string>(0);
  return caf::to_string(problem);
}

} // namespace sluice::actors
