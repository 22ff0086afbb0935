#include "cli/toml.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <toml++/toml.h>

namespace sluice::cli {

namespace {

std::size_t line_of(const toml::node& of) {
  return of.source().begin.line;
}

std::string scalar(const toml::node& from) {
  if (const auto* text = from.as_string())
    return text->get();
  if (const auto* whole = from.as_integer())
    return std::to_string(whole->get());
  if (const auto* number = from.as_floating_point())
    return fmt::format("{}", number->get());
  if (const auto* flag = from.as_boolean())
    return flag->get() ? "true" : "false";
  throw toml_error(line_of(from), "a value is a text, a number, true, false or a list of those");
}

toml_entry entry(std::string_view key, const toml::node& from) {
  toml_entry made;
  made.key = key;
  made.line = line_of(from);
  made.is_array = from.is_array();
  if (const auto* list = from.as_array())
    for (const auto& each : *list)
      made.values.push_back(scalar(each));
  else
    made.values.push_back(scalar(from));
  return made;
}

toml::table parsed(std::string_view text) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& problem) {
    throw toml_error(
      problem.source().begin.line,
      fmt::format("{} (texts stand in quotes: key = \"text\")", problem.description()));
  }
}

} // namespace

std::vector<toml_entry> read_toml(std::string_view text) {
  std::vector<toml_entry> entries;
  for (const auto& [key, value] : parsed(text)) {
    const auto* section = value.as_table();
    if (section == nullptr) {
      entries.push_back(entry(key.str(), value));
      continue;
    }
    for (const auto& [inner_key, inner_value] : *section) {
      auto& made = entries.emplace_back(entry(inner_key.str(), inner_value));
      made.section = key.str();
      made.section_line = line_of(value);
    }
  }
  std::ranges::stable_sort(entries, {}, &toml_entry::line); // a table sorts its keys by name
  return entries;
}

} // namespace sluice::cli
