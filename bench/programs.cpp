#include "bench/programs.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <unistd.h>

namespace sluice::bench {

/// Boost's own search would need its library for files.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return ::access(name.c_str(), X_OK) == 0 ? name : std::string{};
  const char* all = std::getenv("PATH");
  std::istringstream folders(all != nullptr ? all : "");
  for (std::string each; std::getline(folders, each, ':');)
    if (const auto file = std::filesystem::path(each) / name; ::access(file.c_str(), X_OK) == 0)
      return file.string();
  return {};
}

} // namespace sluice::bench
