#pragma once

#include <string_view>

namespace sluice::cli {

/// Sluice's version, as CMakeLists.txt states it: "0.1.0".
std::string_view version() noexcept;

} // namespace sluice::cli
