#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// One `key = value` of a TOML file.
struct toml_entry {
  std::string section; ///< "train" below [train], empty above the first section
  std::string key;
  std::vector<std::string> values; ///< one, or those of an array; numbers as they were written
  bool is_array = false;
  std::size_t line = 0; ///< from 1
  std::size_t section_line = 0;
};

struct toml_error : std::runtime_error {
  toml_error(std::size_t line, const std::string& what) : std::runtime_error(what), line(line) {}
  std::size_t line;
};

/// Reads the part of TOML that options need: sections, keys, strings on one line, numbers, true and
/// false, arrays of those, comments. Errors: toml_error for anything else.
std::vector<toml_entry> read_toml(std::string_view text);

} // namespace sluice::cli
