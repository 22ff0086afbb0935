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
  std::vector<std::string> values; ///< one, or those of an array; numbers in decimals
  bool is_array = false;
  std::size_t line = 0; ///< from 1
  std::size_t section_line = 0;
};

struct toml_error : std::runtime_error {
  toml_error(std::size_t line, const std::string& what) : std::runtime_error(what), line(line) {}
  std::size_t line;
};

/// The keys of a TOML file, and of its tables as sections, in the order of their lines: texts,
/// numbers, true and false, and arrays of those. Errors: toml_error for a file that is not TOML,
/// and for values of other kinds.
std::vector<toml_entry> read_toml(std::string_view text);

} // namespace sluice::cli
