#pragma once

#include <stdexcept>

namespace sluice::cli {

/// How the command ends: exit codes as the README lists them.
namespace exit_code {
inline constexpr int success = 0;
inline constexpr int failure = 1;  ///< the run failed
inline constexpr int usage = 2;    ///< an option, a config key or an input is wrong
inline constexpr int signal = 128; ///< plus the signal's number
} // namespace exit_code

/// An option, a config key or an input file is wrong; nothing was started. Ends with `usage`.
class usage_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace sluice::cli
