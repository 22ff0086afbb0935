#pragma once

#include <string>

namespace sluice::bench {

/// The path of a program that is a path itself or on the search path; empty: there is none.
std::string find_program(const std::string& name);

} // namespace sluice::bench
