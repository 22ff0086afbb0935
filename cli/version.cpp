#include "cli/version.hpp"

namespace sluice::cli {

std::string_view version() noexcept {
  return SLUICE_VERSION;
}

} // namespace sluice::cli
